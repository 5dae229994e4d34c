"""The load generator `rawload`: a program of its own that costs little, so that a figure belongs to the broker. Not part of this
repository; who measures names the binary."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks import processes
from tests.benchmarks.load import Stalled

_PATIENCE_S = 60.0


class Loaded(NamedTuple):
    """What one run of the generator saw; latencies in ms. CPU is user and system time of the broker's whole process tree.

    `received_share`: of what was sent, how much reached a consumer; 0 where there was none.
    """

    messages_per_s: float
    messages_per_core_s: float
    cpu_us: float
    cores: float
    p50_ms: float
    p99_ms: float
    delivery_p50_ms: float
    delivery_p99_ms: float
    received_share: float
    open_s: float
    resident_mib: float


class Generator:
    def __init__(self, binary: Path) -> None:
        self.binary = binary

    def arguments(self, address: tuple[str, int], process_id: int, topic: str, *load: str) -> list[str]:
        return [str(self.binary), "-addr", f"{address[0]}:{address[1]}", "-pid", str(process_id), "-topic", topic, *load]

    def start(self, address: tuple[str, int], process_id: int, topic: str, *load: str) -> Running:
        return Running(self.arguments(address, process_id, topic, *load))

    def run(self, address: tuple[str, int], process_id: int, topic: str, *load: str, patience_s: float = _PATIENCE_S) -> Loaded:
        """Blocks until the run ends. Raises `Stalled` when the generator fails or takes `patience_s` too long."""
        return self.start(address, process_id, topic, *load).result(patience_s)


class Running:
    """A run under way. `result` must be called; a run that is given up is killed."""

    def __init__(self, command: list[str]) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `result`)
        self.child = processes.start(command, self._output)

    def result(self, patience_s: float = _PATIENCE_S) -> Loaded:
        try:
            self.child.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise Stalled(f"the load generator did not end within {patience_s:g} s") from None
        finally:
            processes.end(self.child)
            self._output.seek(0)
            said = self._output.read().decode(errors="replace").strip()
            self._output.close()
        if self.child.returncode:
            raise Stalled(f"the load generator failed: {said[-500:]}")
        try:
            return _parse(json.loads(said.splitlines()[-1]))
        except (IndexError, KeyError, ValueError):
            raise Stalled(f"the load generator printed no result: {said[-500:]!r}") from None


def _parse(answer: dict[str, Any]) -> Loaded:
    latency, delivery = answer["latency"], answer.get("e2e", {})
    sent = answer["entries_sent"]
    return Loaded(
        messages_per_s=answer["msgs_per_s"],
        messages_per_core_s=answer.get("msgs_per_broker_core_s", 0),
        cpu_us=answer.get("broker_cpu_us_per_msg", 0.0),
        cores=answer.get("broker_cores", 0.0),
        p50_ms=latency["p50_ms"],
        p99_ms=latency["p99_ms"],
        delivery_p50_ms=delivery.get("p50_ms", 0.0),
        delivery_p99_ms=delivery.get("p99_ms", 0.0),
        received_share=answer.get("received", 0) / sent if sent else 0.0,
        open_s=answer["open_s"],
        resident_mib=answer["rss_mib_before_open_after"][2],
    )
