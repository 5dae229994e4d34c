"""Versions of a schema as the console shows them: laid out, and what changed from one to the next. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff

from admin_ui.topic_stats import ProducerRow
from messaging.adminrpc.schemas import SchemaStored
from messaging.adminrpc.topics import TopicClient
from messaging.limits.json_values import has_more_values
from messaging.limits.rest import BODY_VALUES_MAX
from tenants.schema_text import schema_text

LINES_MAX = 1_000  # that are compared, or shown
CONTEXT = 3  # lines around a change
_KINDS = {"+": "added", "-": "removed", "@": "place"}


@dataclass(frozen=True)
class VersionRow:
    """`producers`, `consumers`: names of those that are connected with this version; None: unknown."""

    version: int
    kind: str
    created_ms: int
    size_bytes: int
    producers: list[str] | None
    consumers: list[str] | None


@dataclass(frozen=True)
class DiffLine:
    """`kind`: "added", "removed", "place" (where the lines are that follow) or "" for one that stayed."""

    kind: str
    text: str


def version_rows(
    versions: Sequence[SchemaStored], connected: Sequence[TopicClient | ProducerRow] | None, consuming: Sequence[TopicClient]
) -> list[VersionRow]:
    """Newest first. Each client is looked at once, however many versions there are. `connected` None: clients are not known."""
    producers, consumers = defaultdict[int | None, list[str]](list), defaultdict[int | None, list[str]](list)
    for producer in connected or ():
        producers[producer.schema_version].append(producer.name or "unnamed")
    for consumer in consuming:
        consumers[consumer.schema_version].append(f"{consumer.name or 'unnamed'} of {consumer.subscription}")
    return [
        VersionRow(
            each.version,
            each.type,
            each.created_ms,
            len(each.data),
            None if connected is None else producers[each.version],
            None if connected is None else consumers[each.version],
        )
        for each in reversed(versions)
    ]


def laid_out(stored: SchemaStored) -> list[str]:
    """Its definition in lines, JSON with a value in each, then its properties."""
    text = schema_text(stored)
    if text and not has_more_values(text, BODY_VALUES_MAX):
        try:
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):  # of a type that is not described in JSON
            pass
    properties = [f"property {name} = {value}" for name, value in sorted(stored.properties.items())]
    return [f"type {stored.type}", *properties, *text.splitlines()]


def changes(before: SchemaStored, after: SchemaStored) -> list[DiffLine] | None:
    """None where they are too large to be compared here."""
    old, new = laid_out(before), laid_out(after)
    if max(len(old), len(new)) > LINES_MAX:
        return None
    lines = list(unified_diff(old, new, lineterm="", n=CONTEXT))[2:]
    return [DiffLine(_KINDS.get(line[:1], ""), line if line[:1] == "@" else line[1:]) for line in lines]
