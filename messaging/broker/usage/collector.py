"""The shell around the recorder that a broker owns: when to sample, and the disk work in a thread.

collector = UsageCollector(UsageRecorder(broker_id, boot_epoch, now_ms()), raw_directory, totals, now_ms)
every `collector.wait_ms()`, and for the RPC `usage.flush`:   flushed = await collector.collect()
when a topic is unloaded or deleted:                          collector.retire(its last totals)
after the start, of each topic that is stored:                collector.rest(its totals)
at a clean stop, after the last topic is closed:              await collector.collect(ended=True)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from messaging.adminrpc.usage import UsageFlushed
from messaging.broker.usage.boot import BootFile
from messaging.broker.usage.record import TopicTotals
from messaging.broker.usage.recorder import UsageRecorder
from messaging.broker.usage.writer import remove_leftovers, split_by_hour, write

SLICE_TOPICS = 200
RECORDS_A_WRITE_MAX = 50_000  # a file of about 1 MB; bounds the memory of one write


class UsageCollector:
    """One owner, one event loop. `totals` gives the running totals of all loaded topics, one after the other, while the loop runs
    on: it leaves out a topic that is being unloaded meanwhile, whose last totals come by `retire`."""

    def __init__(
        self,
        recorder: UsageRecorder,
        raw_directory: Path,
        totals: Callable[[], Iterable[TopicTotals]],
        now_ms: Callable[[], int],
    ) -> None:
        self._recorder = recorder
        self._raw_directory = raw_directory
        self._boot = BootFile(raw_directory, recorder.source, recorder.boot_epoch, recorder.started_ms)
        self._totals = totals
        self._now_ms = now_ms
        self._changes: list[Callable[[], None]] = []  # what the recorder is to be told, in order
        self._lock = asyncio.Lock()
        self._working = threading.Lock()  # a cancelled `collect` leaves its thread at work
        self._swept = False
        self._files = 0  # written in this boot

    def wait_ms(self, now_ms: int) -> int:
        """How long until the current interval must end; 0 if it is overdue."""
        return max(0, self._recorder.next_cut_ms - now_ms)

    def retire(self, totals: TopicTotals) -> None:
        """The last totals of a topic that is no longer loaded. Does not block."""
        self._changes.append(partial(self._recorder.retire, totals))

    def rest(self, totals: TopicTotals) -> None:
        """What a topic holds that is not loaded. Does not block."""
        self._changes.append(partial(self._recorder.rest, totals))

    def keep(self, has: Callable[[str], bool]) -> None:
        """Topics that are not loaded and not ours any more are others' to record. `has` runs in a thread. Does not block."""
        self._changes.append(partial(self._recorder.keep, has))

    def gone(self, topic: str) -> None:
        """A topic was deleted. Does not block."""
        self._changes.append(partial(self._recorder.gone, topic))

    async def collect(self, *, ended: bool = False) -> UsageFlushed:
        """Ends the running interval and writes out every record that waits. Safe to call at any time, by several callers. `ended`:
        nothing is carried any more.

        Raises `OSError` when the disk refuses; the records are kept and go with the next call.
        """
        async with self._lock:
            changes, self._changes = self._changes, []
            now_ms = self._now_ms()
            totals = []
            # On the loop, which owns the topics; in slices, because 100,000 of them would hold everybody up.
            for total in self._totals():
                totals.append(total)
                if len(totals) % SLICE_TOPICS == 0:
                    await asyncio.sleep(0)
            return await asyncio.to_thread(self._work, now_ms, changes, totals, ended)

    def _work(self, now_ms: int, changes: list[Callable[[], None]], totals: list[TopicTotals], ended: bool) -> UsageFlushed:
        with self._working:
            for change in changes:
                change()
            self._recorder.sample(now_ms, totals)
            flushed = self._write_pending()
            self._boot.covered(self._recorder.interval_start_ms, ended=ended)
            return flushed

    def _write_pending(self) -> UsageFlushed:
        if not self._swept:
            remove_leftovers(self._raw_directory, self._recorder.source)
            self._swept = True
        files: list[str] = []
        rows = 0
        while records := self._recorder.pending(RECORDS_A_WRITE_MAX):
            for hour in split_by_hour(records):
                files.append(str(write(hour, self._raw_directory, self._files).relative_to(self._raw_directory)))
                self._files += 1
            self._recorder.confirm(len(records))
            rows += len(records)
        return UsageFlushed(files=files, rows=rows)
