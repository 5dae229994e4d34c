"""What the recycle bin knows of a deleted topic, and under which names its parts are stored meanwhile.

A topic is moved into the bin by giving its rows another name, its *place*, and back by giving them their old name: ledgers,
cursors, schemas and what else is stored of it are never touched. No topic can be called like a place, so nothing but the bin
finds one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

RECYCLED = "recycled"  # in place of the domain
PREFIX = f"{RECYCLED}://"
ValueKeys = Sequence[Callable[[str], str]]  # of a topic's values: the key of each, made of the topic's name


class RecycledTopic(msgspec.Struct, frozen=True, gc=False):
    """A persistent topic that was deleted. Ids rise with the time of deletion. `policies` is what the control plane keeps of it."""

    recycle_id: str
    name: str  # full name: of a topic, of one partition, or of a partitioned topic
    deleted_ms: int
    expires_ms: int  # 0: it is being purged, and cannot be restored
    deleted_by: str = ""
    partitions: int = 0  # 0: not a partitioned topic
    created_ms: int = 0
    topics: int = 0  # how many lie in the bin: 1, or the partitions that there were
    stored_bytes: int = 0  # of their messages
    policies: bytes = b""

    @property
    def purging(self) -> bool:
        return not self.expires_ms

    @property
    def namespace(self) -> str:
        """``tenant/namespace``."""
        tenant, namespace, _ = self.name.partition("://")[2].split("/", 2)
        return f"{tenant}/{namespace}"

    @property
    def places(self) -> str:
        """How the names of all its places begin."""
        return f"{PREFIX}{self.namespace}/{self.recycle_id}/"

    def name_at(self, place: str) -> str:
        """Of a topic, or a partition, at one of its places."""
        return f"persistent://{self.namespace}/{place.removeprefix(self.places)}"

    def place_of(self, name: str) -> str:
        """`name`: its full name, or that of one of its partitions."""
        return self.places + name.partition("://")[2].split("/", 2)[2]


class Recycling(NamedTuple):
    """Where a topic goes that is deleted. `listed` False: it is a partition of the one that `record` is about."""

    record: RecycledTopic
    listed: bool = True


def original_name(name: str) -> str:
    """The full name that what lies at a place had; any other name itself."""
    if not is_place(name):
        return name
    tenant, namespace, _, local = name.removeprefix(PREFIX).split("/", 3)
    return f"persistent://{tenant}/{namespace}/{local}"


def is_place(name: str) -> bool:
    return name.startswith(PREFIX)
