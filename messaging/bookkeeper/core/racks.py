"""Which racks bookies are in, as Pulsar keeps it: one node in ZooKeeper with a JSON object, by group and by bookie.

    {"default": {"bookie-1:3181": {"rack": "/rack-1", "hostname": "bookie-1"}}}

A bookie is in one group. What groups are good for is Pulsar's business; a rack counts whatever the group is. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from messaging.bookkeeper.core.placement import DEFAULT_RACK
from messaging.bookkeeper.errors import InvalidArgument, MalformedMetadata

TABLE_BYTES_MAX = 200_000  # about 2,000 bookies; read in one turn, as it changes
Groups = Mapping[str, Mapping[str, Mapping[str, Any]]]


class RackTable:
    """Not changed: `with_bookie` and `without` make another one. Fields of a bookie that are not known here stay."""

    def __init__(self, groups: Groups | None = None) -> None:
        self.groups: Groups = groups or {}

    @classmethod
    def parse(cls, data: bytes) -> RackTable:
        """Raises `MalformedMetadata`."""
        if len(data) > TABLE_BYTES_MAX:
            raise MalformedMetadata(_too_large(data))
        try:
            groups = json.loads(data or b"{}")
            json.dumps(groups, ensure_ascii=False).encode()  # there may be halves of characters in it, which nobody can be sent
        except (ValueError, RecursionError) as error:  # `UnicodeError`, too
            raise MalformedMetadata(f"the racks of bookies are no JSON: {error}") from None
        if not _is_table(groups):
            raise MalformedMetadata("the racks of bookies are no object of groups, with an object of bookies in each")
        return cls(groups)

    def encode(self) -> bytes:
        """Raises `InvalidArgument` where it is too large to be stored."""
        data = json.dumps(self.groups, ensure_ascii=False).encode()
        if len(data) > TABLE_BYTES_MAX:
            raise InvalidArgument(_too_large(data))
        return data

    def info(self, bookie: str) -> Mapping[str, Any] | None:
        """What is kept of a bookie."""
        return next((bookies[bookie] for bookies in self.groups.values() if bookie in bookies), None)

    def rack_of(self, bookie: str, address: str) -> str:
        """Of a bookie by its id, or else by the host and port where it is; with a slash in front."""
        kept = self.info(bookie) or self.info(address) or {}
        rack = str(kept.get("rack") or "").strip().strip("/")
        return f"/{rack}" if rack else DEFAULT_RACK

    def with_bookie(self, group: str, bookie: str, info: Mapping[str, Any]) -> RackTable:
        groups = self.without(bookie).groups
        return RackTable({**groups, group: {**groups.get(group, {}), bookie: info}})

    def without(self, bookie: str) -> RackTable:
        """A group goes with its last one."""
        left = {group: {name: kept for name, kept in there.items() if name != bookie} for group, there in self.groups.items()}
        return RackTable({group: there for group, there in left.items() if there})


def _is_table(groups: object) -> bool:
    return isinstance(groups, dict) and all(
        isinstance(bookies, dict) and all(isinstance(info, dict) for info in bookies.values()) for bookies in groups.values()
    )


def _too_large(data: bytes) -> str:
    return f"the racks of all bookies take {len(data)} bytes, and the limit is {TABLE_BYTES_MAX}: remove bookies that are gone"
