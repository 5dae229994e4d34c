"""Time that passes only when the simulation lets it: one clock for a whole run, and an event loop that goes by it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
EPOCH_S = 1_700_000_000  # wall-clock time when a simulation begins


class VirtualClock:
    """Seconds since the simulation began. It survives crashes of the simulated broker. `wall_off_s`: how much the wall clock of the
    broker's machine is ahead; that of its clients is right."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.wall_off_s = 0.0

    def time_module(self, sleep: Callable[[float], None]) -> Any:
        """What stands for Python's `time` in the modules of the broker. `sleep` blocks a simulated thread."""
        return _TimeModule(self, sleep)


class _TimeModule:
    def __init__(self, clock: VirtualClock, sleep: Callable[[float], None]) -> None:
        self._clock = clock
        self.sleep = sleep

    def time(self) -> float:
        return EPOCH_S + self._clock.now_s + self._clock.wall_off_s

    def monotonic(self) -> float:
        return self._clock.now_s

    def perf_counter(self) -> float:
        return self._clock.now_s

    def thread_time(self) -> float:
        return 0.0  # work takes no time

    def time_ns(self) -> int:
        return int(self.time() * 1_000_000) * 1_000

    def monotonic_ns(self) -> int:
        return int(self._clock.now_s * 1_000_000) * 1_000

    def perf_counter_ns(self) -> int:
        return self.monotonic_ns()

    def clock_gettime_ns(self, which: int) -> int:
        return self.monotonic_ns()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)  # constants, formatting


class NothingToDo(Exception):
    """The loop has neither a callback nor a timer: it would wait for ever."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Callbacks run in the order in which asyncio runs them; where it would wait for a timer, the clock jumps to it.

    It has no sockets: what wants one finds that the peer refuses the connection.
    """

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self.executor: Executor | None = None  # in place of the default one
        self._clock = clock
        self._clock_resolution = 1e-9
        self._selector = _Jump(clock)

    def time(self) -> float:
        return self._clock.now_s

    def run_for(self, seconds: float) -> None:
        """Lets `seconds` pass, unless `stop` is called meanwhile. Takes no time itself."""
        timer = self.call_later(seconds, self.stop)
        try:
            self.run_forever()
        finally:
            timer.cancel()

    def call(self, act: Callable[[], T]) -> T:
        """What `act` returns, called as the loop calls its callbacks."""
        answer: asyncio.Future[T] = self.create_future()

        def called() -> None:
            try:
                answer.set_result(act())
            except Exception as error:
                answer.set_exception(error)
            self.stop()

        self.call_soon(called)
        self.run_forever()
        return answer.result()

    def run_in_executor(self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        chosen = executor or self.executor
        assert chosen is not None
        return asyncio.wrap_future(chosen.submit(func, *args), loop=self)

    async def create_connection(self, *args: Any, **named: Any) -> Any:
        raise ConnectionRefusedError("there is no network here")

    def _process_events(self, event_list: object) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Simulated threads run while the loop runs a callback: there is nobody to wake."""


class _Jump:
    """Stands where asyncio has its selector, the only place where a loop waits."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def select(self, timeout_s: float | None) -> list[Any]:
        if timeout_s is None:
            raise NothingToDo
        if timeout_s > 0:
            self._clock.now_s += timeout_s
        return []

    def close(self) -> None:
        """Nothing is open."""
