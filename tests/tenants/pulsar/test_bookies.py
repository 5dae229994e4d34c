"""Bookies and racks by Pulsar's tools: what a real Pulsar 4.0 answers, where messages are on bookies and where they are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from messaging.adminrpc.bookies import BookieRack, BookieRackBefore, BookieRackSet, BookieRef, BookieSeen, BookiesSeen
from messaging.adminrpc.methods import BOOKIES_DELETE_RACK, BOOKIES_LIST, BOOKIES_SET_RACK
from messaging.errors import NotFound, NotReady
from tenants.models import AuditRecord
from tests.tenants.world import World, status

Call = Callable[..., Any]
RACKS = "/admin/v2/bookies/racks-info"


class Racks:
    """What the broker answers."""

    def __init__(self, world: World) -> None:
        self.stored: dict[str, tuple[str, BookieRack]] = {}
        world.line.divert(BOOKIES_LIST, self._list)
        world.line.divert(BOOKIES_SET_RACK, self._set)
        world.line.divert(BOOKIES_DELETE_RACK, self._delete)

    def _list(self, _: object) -> BookiesSeen:
        racks: dict[str, dict[str, BookieRack]] = {}
        for bookie, (group, rack) in self.stored.items():
            racks.setdefault(group, {})[bookie] = rack
        return BookiesSeen(bookies=[BookieSeen(bookie="b1:3181", rack="/r1", read_only=False, problem="")], racks=racks)

    def _set(self, asked: BookieRackSet) -> BookieRackBefore:
        before = self._before(asked.bookie)
        self.stored[asked.bookie] = asked.group, BookieRack(rack=asked.rack, hostname=asked.hostname)
        return before

    def _delete(self, asked: BookieRef) -> BookieRackBefore:
        before = self._before(asked.bookie)
        if before.before is None:
            raise NotFound(f"Bookie rack placement configuration not found: {asked.bookie}")
        del self.stored[asked.bookie]
        return before

    def _before(self, bookie: str) -> BookieRackBefore:
        group, rack = self.stored.get(bookie, ("", None))
        return BookieRackBefore(group=group, before=rack)


@pytest.fixture
def on_bookies(settings: Any) -> None:
    settings.MAGNETAR = msgspec.structs.replace(settings.MAGNETAR, ledger_url="bookkeeper://zk1:2181/ledgers")


@pytest.fixture
def racks(world: World, on_bookies: None) -> Racks:
    return Racks(world)


def test_racks_are_set_read_and_deleted_as_by_pulsar(call: Call, racks: Racks) -> None:
    assert call("GET", "/admin/v2/bookies/all").json() == {"bookies": [{"bookieId": "b1:3181"}]}
    assert call("GET", RACKS).json() == {}
    assert status(call("GET", f"{RACKS}/b1:3181")) == status(call("DELETE", f"{RACKS}/b1:3181")) == 404
    assert status(call("POST", f"{RACKS}/b1:3181?group=default", {"rack": "/r1", "hostname": "b1"})) == 204
    assert status(call("POST", f"{RACKS}/b2:3181?group=east", {"rack": "r2"})) == 204
    assert call("GET", f"{RACKS}/b1:3181").json() == {"rack": "/r1", "hostname": "b1"}
    assert call("GET", RACKS).json() == {
        "default": {"b1:3181": {"rack": "/r1", "hostname": "b1"}},
        "east": {"b2:3181": {"rack": "r2"}},
    }
    assert status(call("DELETE", f"{RACKS}/b1:3181")) == 204 and set(racks.stored) == {"b2:3181"}


@pytest.mark.usefixtures("on_bookies")
def test_what_pulsar_refuses_is_refused(call: Call) -> None:
    refused = call("POST", f"{RACKS}/b1:3181", {"rack": "/r1"})
    assert (status(refused), refused.json()["reason"]) == (412, "Bookie 'group' parameters is missing")
    refused = call("POST", f"{RACKS}/b1:3181?group=default", {"rack": "/a/b"})
    assert status(refused) == 412 and "'/a/b' has a slash elsewhere than at its ends" in refused.json()["reason"]
    assert status(call("POST", f"{RACKS}/b1:3181?group=default", {"rack": "r" * 10_000})) == 400


def test_each_change_is_audited_with_what_was_before(call: Call, racks: Racks) -> None:
    for rack in ("/r1", "/r2"):
        call("POST", f"{RACKS}/b1:3181?group=default", {"rack": rack, "hostname": "b1"})
    call("DELETE", f"{RACKS}/b1:3181")
    assert call("GET", RACKS).json() == {}
    rows: list[Any] = list(AuditRecord.unscoped.filter(action__startswith="bookie_rack.").order_by("id"))
    first, second = ({"group": "default", "rack": rack, "hostname": "b1"} for rack in ("/r1", "/r2"))
    assert [(row.action, row.resource, row.before, row.after) for row in rows] == [
        ("bookie_rack.set", "b1:3181", None, first),
        ("bookie_rack.set", "b1:3181", first, second),
        ("bookie_rack.delete", "b1:3181", second, None),
    ]


@pytest.mark.usefixtures("on_bookies")
def test_a_change_whose_answer_was_lost_is_audited_as_one_that_was_not_confirmed(world: World, call: Call) -> None:
    """The broker had changed the table, and the audit log had no record of it."""

    def lost(_: object) -> BookieRackBefore:
        raise NotReady("the connection to the broker was lost")

    world.line.divert(BOOKIES_SET_RACK, lost)
    world.line.divert(BOOKIES_DELETE_RACK, lost)
    assert not BOOKIES_SET_RACK.idempotent, "a second attempt would find what the first one left"
    assert status(call("POST", f"{RACKS}/b1:3181?group=default", {"rack": "/r1"})) == 503
    assert status(call("DELETE", f"{RACKS}/b1:3181")) == 503
    rows: list[Any] = list(AuditRecord.unscoped.filter(action__startswith="bookie_rack.").order_by("id"))
    lost_words = {"not_confirmed": "the connection to the broker was lost"}
    assert [(row.action, row.before, row.after) for row in rows] == [
        ("bookie_rack.set", None, {"group": "default", "rack": "/r1", "hostname": "", **lost_words}),
        ("bookie_rack.delete", None, lost_words),
    ]


@pytest.mark.usefixtures("on_bookies")
def test_only_superusers_see_and_change_racks(caller: Callable[[str], Call]) -> None:
    for method, path, value in (
        ("GET", "/admin/v2/bookies/all", None),
        ("GET", RACKS, None),
        ("GET", f"{RACKS}/b1:3181", None),
        ("POST", f"{RACKS}/b1:3181?group=default", {"rack": "/r1"}),
        ("DELETE", f"{RACKS}/b1:3181", None),
    ):
        assert status(caller("olga")(method, path, value)) == 403, (method, path)


def test_messages_that_are_on_no_bookies_are_said_to_be_on_none(call: Call) -> None:
    assert call("GET", "/admin/v2/bookies/all").json() == {"bookies": []} and call("GET", RACKS).json() == {}
    for method, value in (("GET", None), ("POST", {"rack": "/r1"}), ("DELETE", None)):
        refused = call(method, f"{RACKS}/b1:3181?group=default", value)
        assert status(refused) == 412 and "ledger_url names no BookKeeper" in refused.json()["reason"]
