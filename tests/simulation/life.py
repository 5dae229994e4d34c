"""One life of a simulated broker: from its start on what an earlier one left on the disk, until it is stopped or killed."""

from __future__ import annotations

import asyncio
import errno
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.http.context import EdgeContext
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.wire.commands import Commands
from messaging.broker.runtime.wire.connection import Connection
from messaging.clock import ExpiryClock, boottime_ms, wall_ms
from messaging.settings import Settings
from messaging.storage.ledger_store import Unavailable
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.device.aio import Done
from messaging.storage.managed.cursor_log import RETRY_S
from messaging.storage.managed.retention import LedgerLimits
from tests.simulation.small_runs import SEALED
from tests.simulation.sockets import context_of
from tests.simulation.threads import ThreadPool, Threads
from tests.simulation.virtual_time import VirtualClock, VirtualLoop
from tests.support.brokers.broker_over import broker_over
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.fake_file import FakeAio
from tests.support.storage.memory_ledgers import MemoryMetaStore

DISK_S_MAX = 0.004  # of one write or read
ROUNDS_MAX = 100  # until the last task is cancelled
META_S_MAX = 0.002  # of one call of the metadata store
CONFIG = LocalConfig(segment_bytes=64 << 10, commit_bytes_max=32 << 10, reserved_bytes=64 << 10, checkpoint_bytes=16 << 10)
LIMITS = LedgerLimits(entries_max=40)


class Killed(Exception):
    """The process is gone: nothing that it does now counts."""


class Life:
    """`crash_at`: the operation of disk or metadata before which it dies; 0: none. `died` is called at that moment."""

    def __init__(
        self,
        settings: Settings,
        clock: VirtualClock,
        random: Random,
        disk: FakeDisk,
        meta: MemoryMetaStore,
        *,
        deduplicates: bool,
        strict: bool,
    ) -> None:
        self.loop = VirtualLoop(clock)
        self.random = random
        self.disk = disk
        self.dead = False
        self.died: Callable[[], None] = lambda: None
        self.operations = 0
        self.crash_at = 0
        self.metadata_fails_from = 0  # the call from which on all fail until the broker serves; 0: none
        self.metadata_calls = 0
        self.metadata_failed = False
        self.reads_fail: Callable[[], bool] = lambda: False
        self.problems: list[str] = []
        self.service: Broker
        self.on_unloaded: Callable[[str], None] = lambda topic: None  # told the name of a topic that was closed
        self._settings = settings
        self._policies = {"deduplication": deduplicates}
        self._strict = strict
        self._threads = Threads.current = Threads(self.loop, random)
        self.edge: EdgeContext | None = None  # until a WebSocket is opened
        self.loop.executor = ThreadPool(8)
        self.loop.set_exception_handler(self._raised)
        self._meta: Any = _Metadata(meta, self)
        disk.before_unlocked = self._before_disk
        disk.make_aio = lambda loop: _Aio(loop, self)
        self._starting = self.loop.create_task(self._start(), name="start")

    # --- what befalls it

    def operation(self) -> None:
        """Counts one, and ends this life if it is the one chosen."""
        self.operations += 1
        if self.operations == self.crash_at:
            self.kill()
        if self.dead:
            raise Killed

    def kill(self) -> None:
        if not self.dead:
            self.dead = True
            self.died()
            self.loop.stop()

    def bury(self) -> None:
        """Nothing of it is left: no task, no thread."""
        self.dead = True
        self._threads.kill()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what was to be awaited, and never will be
            for _ in range(ROUNDS_MAX):
                self.loop.run_for(0.001)
                if not (tasks := asyncio.all_tasks(self.loop)):
                    break
                for task in tasks:
                    task.cancel()
                del tasks
            self.loop.close()

    def metadata_call(self) -> None:
        """Raises `Unavailable` where the store is gone."""
        self.metadata_calls += 1
        if 0 < self.metadata_fails_from <= self.metadata_calls and not self.serving:
            self.metadata_failed = True
            raise Unavailable("the metadata is gone")

    def _before_disk(self, kind: str, path: Path) -> None:
        self.operation()
        self._threads.pause(self.random.random() * DISK_S_MAX)
        if kind == "read" and self.serving and self.reads_fail():
            raise OSError(errno.EIO, f"{path.name} cannot be read now")

    def _raised(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self.dead:
            self.problems.append(f"{context['message']}: {context.get('exception')!r}")

    # --- starting and stopping

    @property
    def serving(self) -> bool:
        return self._starting.done() and not self.dead and self.refusal is None

    @property
    def refusal(self) -> BaseException | None:
        """Why it does not start."""
        return self._starting.exception() if self._starting.done() and not self.dead else None

    async def _start(self) -> None:
        store = LocalLedgerStore("/log", CONFIG, disk=self.disk)
        self.service = await broker_over(
            self._settings,
            store,
            self._meta,
            limits=LIMITS,
            now_ms=wall_ms,
            cursor_retry_s=RETRY_S,
            cursor_checkpoint_bytes=16 << 10,
            expiry_clock=ExpiryClock(wall_ms, boottime_ms),
        )
        store.on_failed = self.service.store_failed
        self.service.topics.services.limits.delayed_delivery_strict = self._strict
        self.service.topics.services.memory.delayed_seal_entries = SEALED
        self.service.topics.on_unloaded.append(lambda topic: self.on_unloaded(topic.text))
        self._commands = Commands(self.service)
        self.service.before_stop.append(self._commands.stop)
        feed = [
            FeedChange(version=1, kind="tenant", key="public", state={"admin_roles": []}),
            FeedChange(version=1, kind="namespace", key="public/default", state={"policies": self._policies}),
        ]
        await AdminHandlers(self.service).feed.apply(FeedApply(from_version=0, to_version=1, full=True, changes=feed))
        self.service.start_background_loops()

    @property
    def websockets(self) -> EdgeContext:
        self.edge = self.edge or context_of(self.service)
        return self.edge

    def connection(self) -> Connection:
        return Connection(self.service, self._commands, tls=False)


class _Metadata:
    """A metadata store that takes its time. A call that a crash cuts off was carried out, or was not."""

    def __init__(self, store: MemoryMetaStore, life: Life) -> None:
        self._store = store
        self._life = life

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        life = self._life

        async def call(*values: Any, **named: Any) -> Any:
            life.operation()
            life.metadata_call()
            await asyncio.sleep(life.random.random() * META_S_MAX)
            if life.dead:
                raise Killed
            result = await real(*values, **named)
            life.operation()
            await asyncio.sleep(life.random.random() * META_S_MAX)
            return result

        return call


class _Aio(FakeAio):
    """Reads and writes that happen some time after they were begun."""

    def __init__(self, loop: asyncio.AbstractEventLoop, life: Life) -> None:
        super().__init__(loop)
        self._life = life

    def begin(self, work: Callable[[], None], done: Done) -> None:
        self.loop.call_later(self._life.random.random() * DISK_S_MAX, self._carry_out, work, done)

    def _carry_out(self, work: Callable[[], None], done: Done) -> None:
        try:
            work()
        except OSError as error:
            done(error)
        else:
            done(None)
