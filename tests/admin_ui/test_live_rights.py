"""Live pages are closed within a second of the change that takes them away, by whichever process it was made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from admin_ui.live import rights
from admin_ui.live.rights import RECORDS_MAX, Change, RightsWatch
from tests.support.waiting import eventually


class Log:
    """The audit log, as far as it is asked for."""

    def __init__(self) -> None:
        self.changes = [Change(7, "tenant.create", "", "user:root", "acme")]
        self.asked = 0
        self.away = False

    def add(self, action: str, tenant: str = "acme", role: str = "user:olga", resource: str = "x") -> None:
        self.changes.append(Change(self.changes[-1].sequence + 1, action, tenant, role, resource))

    async def records(self, sequence: int) -> list[Change]:
        self.asked += 1
        if self.away:
            raise OSError("the database is away")
        return self.changes[-1:] if sequence < 0 else [change for change in self.changes if change.sequence > sequence]


@pytest.fixture
async def log() -> AsyncIterator[Log]:
    yield Log()


@pytest.mark.parametrize(
    ("change", "concerns"),
    [
        (Change(1, "member.remove", "acme", "user:olga", "acme/tom"), True),
        (Change(1, "team.set", "acme", "user:olga", "acme/payments"), True),
        (Change(1, "member.remove", "other", "user:sam", "other/tom"), False),
        (Change(1, "person.set_active", "", "user:root", "tom"), True),
        (Change(1, "tenant.delete", "", "user:root", "acme"), True),
        (Change(1, "session.sign_out", "", "user:tom", "tom"), True),
        (Change(1, "session.sign_out_everywhere", "", "user:root", "tom"), True),
        (Change(1, "session.sign_in", "", "user:sam", "sam"), False),
        (Change(1, "denied", "acme", "user:tom", "acme"), False),
        (Change(1, "message.read", "acme", "user:tom", "acme/orders/t"), False),
    ],
)
def test_what_concerns_a_reader(change: Change, concerns: bool) -> None:
    assert change.concerns("acme", "user:tom") is concerns


async def test_only_those_whom_it_concerns_are_looked_at(log: Log) -> None:
    watch = RightsWatch(log.records, interval_s=0.001)
    async with watch.reading("acme", "user:tom") as tom, watch.reading("other", "user:sam") as sam:
        log.add("member.set")
        await asyncio.wait_for(tom.changed.wait(), 10)
        assert not sam.changed.is_set()
        log.add("member.set", "other")
        await asyncio.wait_for(sam.changed.wait(), 10)


async def test_what_was_before_is_no_change(log: Log) -> None:
    watch = RightsWatch(log.records, interval_s=0.001)
    async with watch.reading("acme", "user:tom") as tom:
        await eventually(lambda: log.asked > 5)
        assert not tom.changed.is_set()


async def test_so_many_changes_that_they_are_not_all_read_concern_everybody(log: Log) -> None:
    watch = RightsWatch(log.records, interval_s=0.001)
    async with watch.reading("acme", "user:tom") as tom:
        for _ in range(RECORDS_MAX):
            log.add("member.set", "other")
        await asyncio.wait_for(tom.changed.wait(), 10)


async def test_a_database_that_is_away_is_asked_again(log: Log) -> None:
    watch = RightsWatch(log.records, interval_s=0.001)
    async with watch.reading("acme", "user:tom") as tom:
        log.away = True
        asked = log.asked
        await eventually(lambda: log.asked > asked + 2)
        log.away = False
        log.add("role.set")
        await asyncio.wait_for(tom.changed.wait(), 10)


async def test_nobody_reads_nothing_is_asked(log: Log) -> None:
    watch = RightsWatch(log.records, interval_s=0.001)
    async with watch.reading("acme", "user:tom"):
        pass
    asked = log.asked
    async with watch.reading("acme", "user:tom") as tom:
        assert log.asked == asked + 1, "it begins anew, with the newest record"
        log.add("member.set")
        await asyncio.wait_for(tom.changed.wait(), 10)


def test_a_change_is_noticed_within_a_second() -> None:
    assert rights.INTERVAL_S <= 0.5, "the check itself takes time, too"
