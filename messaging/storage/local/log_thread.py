"""Whose turn it is to change the end of the log, and the thread that may wait for the disk while it has the turn.

The end of the log, its index and the tables of segments have one owner at a time: who has the turn. Mostly that is the log thread.
The loop takes it for a commit that needs nothing but to be written (see `writer.py`).
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from messaging.storage.ledger_store import StoreError, Unavailable
from messaging.storage.local.environment import LogEnvironment

Job = Callable[[], Callable[[], None] | None]
Answer = TypeVar("Answer")


class LogFailure:
    """Why the log takes nothing more, for good: an error of a write or a sync, or a bug."""

    def __init__(self, environment: LogEnvironment) -> None:
        self.error: StoreError | None = None
        self._environment = environment

    def fail(self, error: Exception) -> StoreError:
        """The first one counts and is reported."""
        if self.error is None:
            directory = self._environment.directory
            self.error = Unavailable(f"the log in {directory} failed and accepts nothing more until a restart: {error!r}")
            self._environment.report("failed", str(self.error))
        return self.error


class LogThread:
    def __init__(self, failure: LogFailure) -> None:
        self._failure = failure
        self._turn = threading.Lock()
        self._given: deque[None] = deque()  # one for each job that the thread was given and has not ended
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ledger-log", daemon=True)

    def start(self) -> None:
        """Jobs that were posted before are run now."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after what is queued. Blocks."""
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def queued(self) -> int:
        """Jobs that the thread has not taken yet; one that it took may still wait for the turn."""
        return self._jobs.qsize()

    def try_turn(self) -> bool:
        """For the loop: takes the turn, unless the thread has anything to do. End it with `end_turn`."""
        return not self._given and self._turn.acquire(blocking=False)

    def end_turn(self) -> None:
        self._turn.release()

    def post(self, job: Job) -> None:
        """Runs `job` with the turn, and what it returns after the turn. For any thread. It must be short, unless it is a commit."""
        self._given.append(None)
        self._jobs.put(job)

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """What `question` returns, asked with the turn. Blocks; not for the loop, nor for the log thread itself."""
        answer: Future[Answer] = Future()
        self.post(lambda: answer.set_result(question()))
        return answer.result()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            after: Callable[[], None] | None = None
            with self._turn:
                try:
                    after = job()
                except Exception as error:
                    self._failure.fail(error)
                self._given.popleft()
            if after is not None:
                after()  # when nothing keeps the loop from taking the turn
            del job, after  # while it waits, the thread holds on to nothing of the last commit
