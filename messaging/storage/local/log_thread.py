"""The turn to change the end of the log, and the thread that may wait for the disk while it has the turn.

The end of the log, its index and the tables of segments have one owner at a time: whoever has the turn. Usually that is the log
thread. The event loop takes the turn for a commit that only needs to be written (see `write/writer.py`).
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
    """The reason why the log permanently accepts nothing more: a failed write or sync, or a bug."""

    def __init__(self, environment: LogEnvironment) -> None:
        self.error: StoreError | None = None
        self._environment = environment

    def fail(self, error: Exception) -> StoreError:
        """Records and reports the first failure; later ones are ignored."""
        if self.error is None:
            directory = self._environment.directory
            self.error = Unavailable(f"the log in {directory} failed and accepts nothing more until a restart: {error!r}")
            self._environment.report("failed", str(self.error))
        return self.error


class LogThread:
    def __init__(self, failure: LogFailure) -> None:
        self._failure = failure
        self._turn = threading.Lock()
        self._given: deque[None] = deque()  # one element for each job posted to the thread and not completed
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ledger-log", daemon=True)

    def start(self) -> None:
        """Jobs that were posted earlier are run now."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the queued jobs. Blocks."""
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def queued(self) -> int:
        """The number of jobs not yet started; one that was taken from the queue may still wait for the turn."""
        return self._jobs.qsize()

    def try_turn(self) -> bool:
        """For the event loop: takes the turn, unless the thread has work. Release it with `end_turn`."""
        return not self._given and self._turn.acquire(blocking=False)

    def end_turn(self) -> None:
        self._turn.release()

    def post(self, job: Job) -> None:
        """Runs `job` with the turn, then the callable that it returns without the turn. Thread-safe. Only commits may take long."""
        self._given.append(None)
        self._jobs.put(job)

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """Runs `question` with the turn and returns its result. Blocks; call neither on the loop nor in the log thread."""
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
                after()  # called after the turn was released, so the loop can take it
            del job, after  # while idle, the thread must not keep the last commit alive
