"""Every loop of a whole broker, and a failure in each.

Seen: one topic whose cursor could not be packed ended the checkpoints of all topics; one peer that raised in `keep_alive` would
have ended it for everybody, and nobody would have been told.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from messaging.adminrpc.feed import FeedApply
from messaging.background import BackgroundLoops
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.broker_metrics import broker_samples
from messaging.broker.runtime.feed.store import FeedStore
from messaging.broker.runtime.main import start
from messaging.errors import StorageFailed
from messaging.identity import create_secrets
from messaging.metrics import exposition
from messaging.protocol.names import parse_topic
from messaging.settings import Settings
from messaging.storage.ledger_store import Unavailable
from tests.support.once_after_start import once_after_start
from tests.support.raising import DeadLettersLater, LevelOf, Raises, UsedOrNot, boom, raises_no_space
from tests.support.stepped_sleep import SteppedSleep
from tests.support.waiting import eventually

THREADS = {"MainThread", "metadata", "ledger-log"}  # the last two report as `metadata_store` and `ledger_log`


class Running:
    """`threads_before`: of other tests, perhaps, in this process."""

    def __init__(self, broker: Broker, turns: SteppedSleep, threads_before: set[threading.Thread]) -> None:
        self.threads_before = threads_before
        self.broker = broker
        self.turns = turns
        self.loops = broker.background.loops


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    settings = Settings(data_dir=str(tmp_path), broker_port=0, ws_port=0, broker_rpc_port=0)
    create_secrets(settings)
    turns = SteppedSleep()
    threads_before = set(threading.enumerate())
    async with AsyncExitStack() as stack:
        service = await start(settings, stack, BackgroundLoops(turns.sleep))
        stack.push_async_callback(service.stop)
        # Those of a fake clock have begun to wait before a test lets them go on.
        await eventually(lambda: turns.waiting.keys() >= {name for name, (_, go_on) in FAILURES.items() if go_on is again})
        yield Running(service, turns, threads_before)
    asyncio.get_running_loop().set_exception_handler(None)


async def in_sample_rates(at: Running, patch: pytest.MonkeyPatch) -> None:
    topic: Any = Raises()
    at.broker.metering.active(topic)
    await at.turns.next("sample_rates")
    topic.rates = None


async def in_end_non_persistent_topics(at: Running, patch: pytest.MonkeyPatch) -> None:
    topic: Any = UsedOrNot()
    at.broker.non_persistent_topics.add(topic)
    await at.turns.next("end_non_persistent_topics")
    topic.closed = "gone"


async def in_look_for_problems(at: Running, patch: pytest.MonkeyPatch) -> None:
    topic: Any = UsedOrNot()
    topic.text, topic.name = "persistent://acme/orders/broken", parse_topic("persistent://acme/orders/broken")
    at.broker.problems.loaded(topic)
    with patch.context() as patched:
        patched.setitem(at.broker.topics.loaded, topic.text, topic)
        patched.setattr(at.broker.topics, "loaded_of", lambda namespace: [topic])
        await at.turns.next("look_for_problems")


async def in_look_for_brokers(at: Running, patch: pytest.MonkeyPatch) -> None:
    with patch.context() as patched:
        patched.setattr(at.broker.access.feed, "why_not_ready", boom)
        await at.turns.next("look_for_brokers")


async def in_sweep_memory(at: Running, patch: pytest.MonkeyPatch) -> None:
    connection: Any = Raises()
    at.broker.peers.unread.add(connection)
    await at.turns.next("sweep_memory")
    at.broker.peers.unread.discard(connection)


async def in_sample_history(at: Running, patch: pytest.MonkeyPatch) -> None:
    with patch.context() as patched:
        patched.setattr(at.broker.metering.history, "passed_ms", boom)
        await at.turns.next("sample_history")


async def in_collect_left_ledgers(at: Running, patch: pytest.MonkeyPatch) -> None:
    at.broker.storage.leave(1 << 40, "persistent://acme/orders/t")
    with patch.context() as patched:
        patched.setattr(at.broker.storage.meta, "get_topic", boom)
        await at.turns.next("collect_left_ledgers")


async def in_dead_letters(at: Running, patch: pytest.MonkeyPatch) -> None:
    dead_letters: Any = DeadLettersLater()
    at.broker.dead_letters.due(dead_letters, dead_letters)
    await at.turns.next("dead_letters")


async def in_keep_alive(at: Running, patch: pytest.MonkeyPatch) -> None:
    connection: Any = Raises()
    at.broker.peers.connections.add(connection)
    await at.turns.next("keep_alive")
    at.broker.peers.connections.discard(connection)


async def in_arrivals(at: Running, patch: pytest.MonkeyPatch) -> None:
    connection: Any = Raises()
    at.broker.peers.connections.add(connection)
    await at.turns.next("arrivals")
    at.broker.peers.connections.discard(connection)


async def in_pull_feed(at: Running, patch: pytest.MonkeyPatch) -> None:
    with patch.context() as patched:
        patched.setattr(at.broker.access, "refresh", boom)
        await at.turns.next("pull_feed")


async def in_check_signing_keys(at: Running, patch: pytest.MonkeyPatch) -> None:
    with patch.context() as patched:
        patched.setattr(at.broker.access.verifier, "reload", boom)
        await at.turns.next("check_signing_keys")


async def in_collect_usage(at: Running, patch: pytest.MonkeyPatch) -> None:
    usage = at.broker.metering.usage
    assert usage is not None
    with patch.context() as patched:
        patched.setattr(usage, "wait_ms", lambda now_ms: 0)
        patched.setattr(usage, "collect", boom)
        await at.turns.next("collect_usage")


async def in_checkpoint_cursors(at: Running, patch: pytest.MonkeyPatch) -> None:
    cursors = at.broker.cursors
    with patch.context() as patched:
        patched.setattr(cursors.states, "save", boom)
        cursors.begin_checkpoint()
        await eventually(lambda: at.turns.slept["checkpoint_cursors"] == 1)
    at.turns.waiting["checkpoint_cursors"].set()
    await eventually(lambda: cursors.checkpointing is None)


async def in_metadata_store(at: Running, patch: pytest.MonkeyPatch) -> None:
    meta: Any = at.broker.storage.meta
    for broken in (lambda db: db.execute("rollback"), lambda db: db.close()):
        with pytest.raises(Unavailable):
            await asyncio.wait_for(meta.thread.call(broken), 10)


async def in_event_loop(at: Running, patch: pytest.MonkeyPatch) -> None:
    asyncio.get_running_loop().call_soon(boom)
    await asyncio.sleep(0)


async def in_one_off(at: Running, patch: pytest.MonkeyPatch) -> None:
    await at.broker.background.spawn(asyncio.to_thread(boom), "recover a topic")


async def in_ledger_log(at: Running, patch: pytest.MonkeyPatch) -> None:
    at.broker.store_failed(Unavailable("the disk is gone"))


async def in_turns(at: Running, patch: pytest.MonkeyPatch) -> None:
    connection: Any = Raises()
    at.broker.peers.turn_loop.wait("acme", connection)
    await eventually(lambda: at.loops["turns"].failures)


async def in_dispatch(at: Running, patch: pytest.MonkeyPatch) -> None:
    dispatcher: Any = Raises()
    dispatcher.name = "s"
    dispatcher.tenant = "acme"
    dispatcher.topic_name = "t"
    at.broker.backlog_scheduler.schedule(dispatcher, dispatcher)
    await eventually(lambda: at.loops["dispatch"].failures)


async def in_rate_limits(at: Running, patch: pytest.MonkeyPatch) -> None:
    level: Any = LevelOf(Raises())
    at.broker.topics.services.limits.rate_limits.timers.begin(level)
    await eventually(lambda: at.loops["rate_limits"].failures)


async def again(at: Running, name: str) -> None:
    await at.turns.next(name)


async def metadata_again(at: Running, name: str) -> None:
    await at.broker.storage.meta.put_value(at.broker.storage.fence, "key", b"value")


async def checkpoint_again(at: Running, name: str) -> None:
    at.broker.cursors.begin_checkpoint()
    await eventually(lambda: at.broker.cursors.checkpointing is None)


async def goes_on_by_itself(at: Running, name: str) -> None:
    """Tried again until it succeeds, which it has by now."""


async def never_again(at: Running, name: str) -> None:
    """What is done once, and a log that trusts its disk no more."""


async def in_save_feed(at: Running, patch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageFailed), patch.context() as broken:
        broken.setattr(FeedStore, "append", raises_no_space)
        await at.broker.access.feed.apply(FeedApply(from_version=0, to_version=1, changes=[]))


async def save_feed_again(at: Running, name: str) -> None:
    await at.broker.access.feed.apply(FeedApply(from_version=0, to_version=1, changes=[]))


# loop: how it fails, and how it is seen to go on
FAILURES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "arrivals": (in_arrivals, again),
    "check_signing_keys": (in_check_signing_keys, again),
    "checkpoint_cursors": (in_checkpoint_cursors, checkpoint_again),
    "collect_left_ledgers": (in_collect_left_ledgers, again),
    "collect_usage": (in_collect_usage, again),
    "dead_letters": (in_dead_letters, again),
    "dispatch": (in_dispatch, never_again),
    "end_non_persistent_topics": (in_end_non_persistent_topics, again),
    "event_loop": (in_event_loop, never_again),
    "finish_partitioned_topics": (once_after_start("finish_partitioned_topics", "unfinished_partitioned"), goes_on_by_itself),
    "keep_alive": (in_keep_alive, again),
    "look_for_brokers": (in_look_for_brokers, again),
    "look_for_problems": (in_look_for_problems, again),
    "ledger_log": (in_ledger_log, never_again),
    "metadata_store": (in_metadata_store, metadata_again),
    "meter_stored_topics": (once_after_start("meter_stored_topics", "list_all_topics"), goes_on_by_itself),
    "one_off": (in_one_off, never_again),
    "pull_feed": (in_pull_feed, again),
    "read_stored_problems": (once_after_start("read_stored_problems", "list_all_topics"), goes_on_by_itself),
    "rate_limits": (in_rate_limits, never_again),
    "save_feed": (in_save_feed, save_feed_again),
    "sample_history": (in_sample_history, again),
    "sample_rates": (in_sample_rates, again),
    "sweep_memory": (in_sweep_memory, again),
    "turns": (in_turns, never_again),
    "collect_orphans": (in_one_off, never_again),  # done once; `one_off` stands for it
}


async def test_every_loop_of_a_broker_is_in_the_table(running: Running) -> None:
    assert set(running.loops) == set(FAILURES)


async def test_nothing_runs_for_ever_that_is_not_registered(running: Running) -> None:
    mine = asyncio.current_task()
    registered = running.broker.background.tasks
    assert {task.get_name() for task in registered} <= set(FAILURES)

    # Two listeners of HTTP wait for the end of the broker; they do nothing by themselves.
    def others() -> set[str]:
        return {task.get_name().rstrip("0123456789") for task in asyncio.all_tasks() if task is not mine and task not in registered}

    await eventually(
        lambda: not {"finish_partitioned_topics", "meter_stored_topics", "read_stored_problems"} & others()
    )  # once, after the start
    assert others() <= {"http-"}
    threads = {thread.name for thread in set(threading.enumerate()) - running.threads_before}
    assert {name for name in threads - THREADS if not name.startswith(("asyncio_", "ledger-", "ThreadPool"))} == set()


@pytest.mark.parametrize("name", sorted(FAILURES))
async def test_a_loop_in_which_something_unexpected_happens_goes_on_and_shows_it(
    name: str, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail, go_on = FAILURES[name]
    if name == "collect_orphans":
        name = "one_off"
    loop = running.loops[name]
    before = loop.failures
    await fail(running, monkeypatch)
    assert loop.failures > before
    if go_on is not never_again:
        await go_on(running, name)
        assert not loop.failing and loop.last_success_ms
    text = exposition(broker_samples(running.broker, private=False), private=False).decode()
    assert f'magnetar_background_failures_total{{loop="{name}"}} {float(loop.failures)}' in text
    assert f'magnetar_background_failing{{loop="{name}"}} {float(loop.failing)}' in text


async def test_a_peer_that_raises_keeps_no_other_from_being_looked_after(running: Running) -> None:
    class Peer(Raises):
        asked = 0
        liveness = property(lambda self: self)

        def keep_alive(self) -> None:
            self.asked += 1

    peers: Any = [Peer(), Raises(), Peer()]
    running.broker.peers.connections.update(peers)
    await running.turns.next("keep_alive")
    running.broker.peers.connections.difference_update(peers)
    assert peers[0].asked == peers[2].asked == 1


async def test_a_topic_whose_usage_cannot_be_told_leaves_that_of_the_others(running: Running) -> None:
    topic: Any = Raises()
    topic.closed = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(running.broker.topics.loaded, topic.text, topic)
        assert list(running.broker.metering.usage_totals(running.broker.topics)) == []
    assert running.loops["collect_usage"].failures == 1
