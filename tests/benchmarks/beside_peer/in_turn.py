"""Several brokers that are measured in turn: while one is under load the others are paused, and nobody waits for a slow one."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol

from tests.benchmarks import processes
from tests.benchmarks.beside_peer.peer_process import PeerBroker
from tests.benchmarks.load import Stalled
from tests.benchmarks.processes import Cost
from tests.benchmarks.report import Progress

_QUIET_CORES = 0.1
_QUIET_MAX_S = 6.0
_LOOK_S = 0.25


class Broker(Protocol):
    """What is measured: ours or the peer."""

    process: subprocess.Popen[bytes]
    start_s: float

    @property
    def address(self) -> tuple[str, int]: ...
    def cost(self) -> Cost: ...
    def forget(self, topic: str) -> None: ...
    def unload(self, topic: str) -> None: ...
    def close(self) -> None: ...


class InTurn:
    """`version`: of the peer. `idle_mib`: resident when it had started. `quiet_s`: how long a broker may take to become idle after
    a load before it is paused all the same."""

    def __init__(self, progress: Progress, quiet_s: float = _QUIET_MAX_S) -> None:
        self.brokers: dict[str, Broker] = {}
        self.idle_mib: dict[str, float] = {}
        self.version = "of an unknown version"
        self.runs = 0
        self._progress = progress
        self._quiet_s = quiet_s

    def add(self, name: str, stack: ExitStack, start: Callable[[], Broker]) -> None:
        """Starts a broker, with the others paused, and pauses it when it is quiet. Raises `Stalled` when it does not start."""
        self._progress(f"starting: {name}")
        broker = start()
        stack.callback(broker.close)
        self.brokers[name] = broker
        if isinstance(broker, PeerBroker):
            self.version = broker.version
        self._quiet(broker)
        self.idle_mib[name] = broker.cost().resident_bytes / 2**20
        processes.pause(broker.process)

    def topic(self, domain: str = "persistent") -> str:
        """A new one for each run."""
        self.runs += 1
        return f"{domain}://public/default/bench-{self.runs}"

    @contextmanager
    def turn(self, name: str, topics: Sequence[str] = ()) -> Iterator[Broker]:
        """The broker runs; afterwards `topics` are deleted from it and it is paused. Raises `Stalled` when it has ended."""
        broker = self.brokers[name]
        processes.resume(broker.process)
        try:
            if broker.process.poll() is not None:
                raise Stalled("the broker has ended")
            yield broker
        finally:
            if broker.process.poll() is None:
                for topic in topics:
                    broker.forget(topic)
                self._quiet(broker)
                processes.pause(broker.process)

    def _quiet(self, broker: Broker) -> None:
        """Waits until the broker has done what the last load left it to do, such as freeing what was deleted."""
        deadline = time.monotonic() + self._quiet_s
        before = broker.cost().cpu_s
        while time.monotonic() < deadline:
            time.sleep(_LOOK_S)
            now = broker.cost().cpu_s
            if now - before < _QUIET_CORES * _LOOK_S:
                return
            before = now
