"""Admin RPC: the bookies on which messages are, and their racks."""

from __future__ import annotations

from typing import Annotated

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request
from messaging.limits.model import Limit
from messaging.limits.sizes import NAME_BYTES_MAX

Bookie = Annotated[str, Limit("the id of a bookie, as host:port", bytes_max=NAME_BYTES_MAX)]


class BookieRack(msgspec.Struct):
    """What was set; either may be empty."""

    rack: str
    hostname: str


class BookieSeen(msgspec.Struct, kw_only=True):
    """`rack`: that by which ledgers are placed. `problem`: why it is not used for new ledgers; empty if it is."""

    bookie: str
    rack: str
    read_only: bool
    problem: str


class BookiesSeen(Answer, kw_only=True):
    """Those that are registered, by id, and the racks that were set, by group and bookie, also of bookies that are away."""

    bookies: list[BookieSeen]
    racks: dict[str, dict[str, BookieRack]]


class BookieRackSet(Request, kw_only=True):
    """Raises precondition_failed where messages are on no bookies."""

    bookie: Bookie
    group: fields.Name
    rack: Annotated[str, Limit("a name", bytes_max=NAME_BYTES_MAX)]
    hostname: Annotated[str, Limit("a name", bytes_max=NAME_BYTES_MAX)] = ""


class BookieRef(Request, kw_only=True):
    """Raises not_found where no rack was set, precondition_failed where messages are on no bookies."""

    bookie: Bookie


class BookieRackBefore(Answer, kw_only=True):
    """What it was until then, in the group `group`; None: it had none."""

    group: str = ""
    before: BookieRack | None = None
