"""The index of delayed messages on a disk with faults, through the store that a broker has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from messaging.broker.core.delayed import run_format
from messaging.broker.core.delayed.run_jobs import RunBytes, Seal
from messaging.broker.runtime.topics.delayed import index_jobs, run_entries, run_threads
from messaging.broker.runtime.topics.delayed.delivery import DelayedDelivery
from messaging.broker.runtime.topics.persistent import persistent
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import LedgerWriter
from messaging.storage.managed.orphans import Collected, collect_left
from tests.support.brokers.storage_broker import TOPIC
from tests.support.faulty_delays import HOUR_MS, OTHER, SEALED, Faulty, numbers
from tests.support.waiting import eventually


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Faulty:
    return Faulty(tmp_path, monkeypatch)


@pytest.mark.parametrize("dies", ["before a kill", "under way"])
async def test_a_dead_sector_under_a_run_costs_no_message_and_nothing_else(faulty: Faulty, dies: str) -> None:
    await faulty.start()
    for name in (TOPIC, OTHER):
        await faulty.publish(name, 0, SEALED)
    faulty.disk.bad_pages.add(await faulty.page_of_a_block())
    await faulty.run_of(OTHER)
    if dies == "before a kill":
        await faulty.kill_and_start()
    inbox, other = await faulty.consume(), await faulty.consume(OTHER)
    faulty.pass_(HOUR_MS - 2_000)

    def given_up() -> bool:
        faulty.waited_s += 0.5  # until then the disk may answer again
        return faulty.damage == {"delayed": 1}

    await eventually(given_up)
    assert inbox.messages == other.messages == [], "nothing is early"
    faulty.pass_(HOUR_MS // 2)
    await eventually(lambda: len(inbox.messages) == len(other.messages) > SEALED // 4)
    assert len(inbox.messages) < 3 * SEALED // 4
    faulty.pass_(HOUR_MS)
    await eventually(lambda: len(inbox.messages) == len(other.messages) == SEALED)
    assert numbers(inbox) == numbers(other) == list(range(SEALED))
    assert faulty.damage == {"delayed": 1}
    await faulty.service.stop()


async def test_a_sector_that_comes_back_costs_nothing(faulty: Faulty) -> None:
    await faulty.start()
    await faulty.publish(TOPIC, 0, SEALED)
    faulty.disk.bad_pages.add(await faulty.page_of_a_block())
    inbox = await faulty.consume()
    faulty.pass_(HOUR_MS - 2_000)
    await eventually(lambda: faulty.failures > 2)
    faulty.disk.bad_pages.clear()
    faulty.pass_(2 * HOUR_MS)
    await eventually(lambda: len(inbox.messages) == SEALED)
    assert numbers(inbox) == list(range(SEALED)) and faulty.damage == {}
    await faulty.service.stop()


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
def wakes(monkeypatch: pytest.MonkeyPatch) -> list[DelayedDelivery]:
    """Whenever a topic looks at its delayed messages."""
    woken: list[DelayedDelivery] = []
    real: Callable[[DelayedDelivery], None] = DelayedDelivery.wake

    def wake(one: DelayedDelivery) -> None:
        woken.append(one)
        real(one)

    monkeypatch.setattr(DelayedDelivery, "wake", wake)
    return woken


async def test_what_cannot_be_read_now_is_not_asked_for_at_every_turn(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch, wakes: list[DelayedDelivery]
) -> None:
    """Found by the simulation: from the time at which it was due, the loop did nothing else."""
    await faulty.start()
    await faulty.publish(TOPIC, 0, SEALED)
    faulty.disk.bad_pages.add(await faulty.page_of_a_block())
    monkeypatch.setattr(index_jobs, "RETRY_S", 3600.0)
    await faulty.consume()
    faulty.pass_(2 * HOUR_MS)
    await eventually(lambda: faulty.failures == 1)
    wakes.clear()
    await turns()
    assert wakes == []
    await faulty.service.stop()


async def test_a_job_that_breaks_is_not_begun_at_every_turn(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch, wakes: list[DelayedDelivery]
) -> None:
    def broken(job: Seal) -> RunBytes:
        raise RuntimeError("injected")

    await faulty.start()
    monkeypatch.setattr(index_jobs, "RETRY_S", 3600.0)
    monkeypatch.setattr(run_threads, "sealed", broken)
    await faulty.publish(TOPIC, 0, SEALED)
    await eventually(lambda: faulty.failures == 1)
    wakes.clear()
    await turns()
    assert wakes == [] and faulty.failures == 1
    await faulty.service.stop()


async def test_a_directory_that_cannot_be_read_is_made_again_of_its_blocks(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the simulation: writing it again was tried for ever, without a pause."""
    await faulty.start()
    await faulty.publish(TOPIC, 0, SEALED)
    run = await faulty.run_of()
    await faulty.service.topics.unload(parse_topic(TOPIC))
    faulty.service.topics.services.memory.delayed_seal_entries = SEALED // 2  # so many released make it worth while
    inbox, topic = await faulty.consume(), await faulty.topic()
    assert faulty.disk.damage(await faulty.stored(run, run.directory_entry))
    faulty.pass_(HOUR_MS + HOUR_MS * 3 // 4)
    await eventually(lambda: topic.ledger.record.delayed_runs[0].directory_id != run.ledger_id)
    before = len(inbox.messages)
    await faulty.kill_and_start()
    inbox = await faulty.consume()
    assert (await faulty.topic()).subscriptions.table["s"].delayed_entries <= SEALED - before
    faulty.pass_(HOUR_MS)
    await eventually(lambda: len(inbox.messages) == SEALED)
    assert numbers(inbox) == list(range(SEALED)) and faulty.damage == {}
    await faulty.service.stop()


async def test_what_is_released_while_a_directory_is_written_comes_again_after_a_kill(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulation: the directory named entries of blocks before the first that it told to read."""
    monkeypatch.setattr(run_format, "BLOCK_ENTRIES", 64)
    await faulty.start()
    await faulty.publish(TOPIC, 0, SEALED)
    run, append = await faulty.run_of(), run_entries.append
    await faulty.service.topics.unload(parse_topic(TOPIC))
    faulty.service.topics.services.memory.delayed_seal_entries = SEALED // 2
    inbox, topic = await faulty.consume(), await faulty.topic()

    async def slowly(writer: LedgerWriter, entries: Iterable[bytes]) -> None:
        before = len(inbox.messages)
        faulty.pass_(HOUR_MS // 8)
        await eventually(lambda: len(inbox.messages) > before + 64)
        await append(writer, entries)

    monkeypatch.setattr(run_entries, "append", slowly)
    faulty.pass_(HOUR_MS + HOUR_MS * 3 // 4)
    await eventually(lambda: topic.ledger.record.delayed_runs[0].directory_id != run.ledger_id)
    await faulty.kill_and_start()
    inbox = await faulty.consume()
    faulty.pass_(HOUR_MS)
    await eventually(lambda: len(inbox.messages) == SEALED)
    await faulty.service.stop()


async def test_a_directory_does_not_name_what_is_pending_again_behind_its_blocks(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry whose block was passed waits again in memory: after a kill the directory must not keep reading from finding it."""
    monkeypatch.setattr(run_format, "BLOCK_ENTRIES", 64)
    await faulty.start()
    await faulty.publish(TOPIC, 0, SEALED)
    run = await faulty.run_of()
    await faulty.service.topics.unload(parse_topic(TOPIC))
    faulty.service.topics.services.memory.delayed_seal_entries = SEALED // 2
    inbox, topic = await faulty.consume(), await faulty.topic()
    faulty.pass_(HOUR_MS + HOUR_MS // 8)
    await eventually(lambda: len(inbox.messages) > 128)
    again = [(one.position.ledger_id, one.position.entry_id) for one in inbox.messages[:10]]
    for ledger_id, entry_id in again:
        assert persistent(topic).delayed.delays.look_at(ledger_id, [(entry_id, faulty.clock() + 4 * HOUR_MS)])
    faulty.pass_(HOUR_MS // 2 + HOUR_MS // 8)
    await eventually(lambda: topic.ledger.record.delayed_runs[0].directory_id != run.ledger_id)
    await faulty.kill_and_start()
    inbox = await faulty.consume()
    faulty.pass_(HOUR_MS)
    await eventually(lambda: len(inbox.messages) == SEALED)
    await faulty.service.stop()


@pytest.mark.parametrize("after_doing", [False, True])
async def test_a_run_of_which_nobody_knows_whether_it_was_recorded_is_kept_until_that_is_known(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch, after_doing: bool
) -> None:
    await faulty.start()
    monkeypatch.setattr(index_jobs, "RETRY_S", 3600.0)
    await faulty.publish(TOPIC, 0, 256)
    faulty.meta.away, faulty.meta.after_doing = True, after_doing
    await faulty.publish(TOPIC, 256, SEALED)
    storage = faulty.service.storage
    await eventually(lambda: list(storage.left.values()) == [TOPIC])
    faulty.meta.away = False
    [made] = storage.left
    collected = await collect_left(storage)
    recorded = await faulty.meta.get_topic(TOPIC)
    assert recorded is not None and (made in recorded.ledger_ids) is after_doing
    assert (collected == Collected(0, 0)) is after_doing
    await faulty.kill_and_start()
    inbox = await faulty.consume()
    faulty.pass_(2 * HOUR_MS)
    await eventually(lambda: len(inbox.messages) == 256 + SEALED)
    assert faulty.damage == {}
    await faulty.service.stop()
