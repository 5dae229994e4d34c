"""Keeps a producer or consumer of one topic open: opens it, waits until it is lost, and opens it again. One task each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from messaging.client.backoff import Backoff, retryable
from messaging.client.timing import Timing
from messaging.errors import MagnetarError, NotReady

logger = logging.getLogger("messaging.client")


class Reopening:
    """`open_once` opens it or raises. `gave_up` is called once, if it will not be open again. `lasting`: errors after which it will
    not, although it was."""

    def __init__(
        self,
        name: str,
        open_once: Callable[[], Awaitable[None]],
        gave_up: Callable[[MagnetarError], None],
        timing: Timing,
        open_timeout_s: float,
        lasting: tuple[type[MagnetarError], ...] = (),
    ) -> None:
        self._name = name
        self._open_once = open_once
        self._gave_up = gave_up
        self._timing = timing
        self._open_timeout_s = open_timeout_s
        self._lasting = lasting
        self._backoff = Backoff(timing.random)
        self._lost = asyncio.Event()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self.error: MagnetarError | None = None  # why it is not open now

    @property
    def opened_before(self) -> bool:
        return self._opened.done() and not self._opened.cancelled() and self._opened.exception() is None

    async def open(self) -> None:
        """Returns when it is open for the first time; raises why it will not be. Cancelled, it stops."""
        self._task = asyncio.create_task(self._run(), name=f"magnetar {self._name}")
        try:
            await asyncio.shield(self._opened)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if not self._opened.done():
            self._opened.cancel()

    def lost(self, error: MagnetarError) -> None:
        """The connection is gone."""
        self.error = error
        self._lost.set()

    def healthy(self) -> None:
        """It is of use, so the next failure is the first again."""
        self._backoff.reset()

    async def _run(self) -> None:
        give_up_s = self._timing.now_s() + self._open_timeout_s
        while True:
            self._lost.clear()
            try:
                await self._open_once()
                if not self._lost.is_set():
                    self.error = None
            except Exception as failure:
                error = self.error = failure if isinstance(failure, MagnetarError) else _unexpected(self._name, failure)
                lasts = isinstance(error, self._lasting) or not retryable(error, opened_before=self.opened_before)
                if lasts or not isinstance(failure, MagnetarError):
                    self._end(error)
                    return
                delay_s = self._backoff.next_delay_s()
                if not self.opened_before and self._timing.now_s() + delay_s > give_up_s:
                    late = NotReady(f"{self._name} could not be opened within {self._open_timeout_s:g} s: {error.message}")
                    late.__cause__ = error
                    self._end(late)
                    return
                logger.info("%s: not open, next try in %.1f s: %s", self._name, delay_s, error.message)
                await self._timing.sleep(delay_s)
                continue
            if not self._opened.done():
                self._opened.set_result(None)
            await self._lost.wait()
            # A short wait even the first time: after a restart of the broker, clients do not come all at once.
            await self._timing.sleep(self._backoff.next_delay_s())

    def _end(self, error: MagnetarError) -> None:
        if not self._opened.done():
            self._opened.set_exception(error)
            self._opened.exception()  # whoever opens it looks; a caller that was cancelled does not
        else:
            logger.warning("%s: giving up: %s", self._name, error.message)
        self._gave_up(error)


def _unexpected(name: str, failure: Exception) -> MagnetarError:
    """Of a function of the user, or a bug: whoever waits must hear of it."""
    logger.exception("%s: failed unexpectedly", name)
    error = MagnetarError(f"{type(failure).__name__}: {failure}")
    error.__cause__ = failure
    return error
