"""What of a record of the audit log, and of the address of a page, is hidden from who reads it: keys, values of properties and
texts that somebody looked for.

The log keeps them, as evidence. It is read by people who see such values masked everywhere else, or read no messages at all.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from messaging.broker.core.dead_letters.redrive import REASON
from messaging.errors import InvalidValue
from messaging.payloads.masks import MASK, Masks
from messaging.payloads.paths import parse_path
from messaging.protocol.names import TopicName, parse_topic
from tenants.access import Actor
from tenants.masking import EVERYTHING, masks_of_lists, masks_of_tenant, shown_filter
from tenants.models import AuditRecord

TOPICS_KEPT = 1_000  # whose masks are remembered
_SOUGHT = ("key", "property", "property_value", "text", "value", "reason")  # parameters that hold what was looked for


class ShownRecord(NamedTuple):
    """`masked`: `row` is a copy without something that the log has, which its hash is of."""

    row: AuditRecord
    masked: bool = False


class RecordMasks:
    """For one reader and one answer. Each topic's masks are read once."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._masks: dict[tuple[str, str], Masks] = {}

    def shown(self, row: AuditRecord) -> ShownRecord:
        """Reads the database for a record that holds what somebody looked for; leaves `row` as it is."""
        if row.tenant and row.action in ("view.save", "view.delete"):
            return self._view(row)
        if not isinstance(row.after, dict) or not row.tenant:
            return ShownRecord(row)
        after = dict(row.after)
        key, wanted, query = after.get("key"), after.get("filter"), after.get("query")
        if key and row.action.startswith("delayed.") and self._of(row.tenant, row.resource).key:
            after["key"] = MASK
        if wanted and row.action == "redrive.start":  # what was too large for the log is its size and hash alone
            after["filter"] = shown_filter(wanted, self._of(row.tenant, row.resource)) if isinstance(wanted, dict) else wanted
        if query and isinstance(query, str):
            after["query"] = self._query(row.tenant, row.resource, query)
        if after == row.after:
            return ShownRecord(row)
        hidden = copy.copy(row)
        hidden.after = after
        return ShownRecord(hidden, masked=True)

    def _view(self, row: AuditRecord) -> ShownRecord:
        """A view that was shared: its address has what it looks for."""
        hidden = copy.copy(row)
        hidden.before, hidden.after = (self._of_view(row, state) for state in (row.before, row.after))
        return ShownRecord(hidden, masked=True) if (hidden.before, hidden.after) != (row.before, row.after) else ShownRecord(row)

    def _of_view(self, row: AuditRecord, state: Any) -> Any:
        address = state.get("address") if isinstance(state, dict) else None
        if not isinstance(address, str) or "?" not in address:
            return state
        return {**state, "address": self.address(row.tenant, address)}

    def address(self, tenant: str, address: str) -> str:
        """Of a page of the console, which is of this tenant. Reads the database if the page looks for something."""
        path, mark, behind = address.partition("?")
        query, hash_mark, fragment = behind.partition("#")
        return f"{path}{mark}{self._query(tenant, '', query)}{hash_mark}{fragment}"

    def _query(self, tenant: str, resource: str, query: str) -> str:
        """Of an address. It may have been cut off in the middle of its last parameter."""
        parts = [part.partition("=") for part in query.split("&")]
        given = {unquote_plus(name): unquote_plus(value) for name, _, value in parts}
        if not any(name in _SOUGHT for name in given):
            return query
        masks = self._of(tenant, resource, given.get("topic", ""))
        shown = []
        for name, separator, value in parts:
            before = unquote_plus(value)
            after = _shown(unquote_plus(name), before, given, masks)
            shown.append(f"{name}{separator}{value if after == before else after}")
        return "&".join(shown)

    def _of(self, tenant: str, resource: str, asked_topic: str = "") -> Masks:
        """Of the topic that the record is about, or of all dead letters of its tenant."""
        name = resource if "://" in resource else asked_topic
        place = tenant, name
        if place not in self._masks:
            if len(self._masks) >= TOPICS_KEPT:
                self._masks.clear()
            self._masks[place] = self._read(tenant, name)
        return self._masks[place]

    def _read(self, tenant: str, name: str) -> Masks:
        if "://" not in name:
            return masks_of_tenant(self._actor, tenant)
        topic = _topic(name)
        return EVERYTHING if topic is None or topic.tenant != tenant else masks_of_lists(self._actor, topic)


def _topic(resource: str) -> TopicName | None:
    """Of a resource: a topic, with a subscription or a position behind it."""
    try:
        return parse_topic("/".join(resource.split("/")[:5]))
    except InvalidValue:
        return None


def _shown(name: str, value: str, given: dict[str, str], masks: Masks) -> str:
    if name == "key":
        return MASK if masks.key and value else value
    if name == "property":
        of, separator, wanted = value.partition("=")
        return f"{of}={MASK}" if separator and wanted and masks.hides_property(of) else value
    if name == "property_value":
        return MASK if masks.hides_property(given.get("property_name", "")) else value
    if name == "reason":
        return MASK if masks.hides_property(REASON) else value
    if name == "text":
        return MASK if masks.of_payload else value
    return MASK if name == "value" and _path_hidden(given.get("path", ""), masks) else value


def _path_hidden(path: str, masks: Masks) -> bool:
    try:
        return masks.of_payload and masks.hides_path(parse_path(path))
    except InvalidValue:
        return masks.of_payload
