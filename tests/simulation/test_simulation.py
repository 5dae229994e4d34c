"""A few seeds in every run of the tests, and the simulation itself: it is repeatable, and it notices a broker that breaks its word.

`make simulation` runs many more.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from messaging.broker.core.delayed.run_jobs import StoredRun
from messaging.broker.core.delayed.time_slots import NEVER_MS
from messaging.broker.core.delayed.topic_delays import DelayPolicy
from messaging.broker.core.dispatch.dropping import DroppingShared
from messaging.broker.http.websocket.window import PushWindow
from messaging.identity import create_secrets
from messaging.settings import Settings
from messaging.storage.local.config import Durability
from messaging.storage.managed.cursor_log import CursorLog
from tests.simulation import life
from tests.simulation.__main__ import described
from tests.simulation.network import Link
from tests.simulation.operation_table import OPERATIONS
from tests.simulation.run import STEPS, Result, simulate
from tests.simulation.silence import silenced
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.fake_file import FakeFile

SEEDS = range(12)  # 3,600 steps, in which everything happens
FEW_STEPS = STEPS // 3  # of which each step before is a part: where runs differ, they differ early
COUNTED = {
    "refused starts",
    "receipts",
    "entries sent again",
    "deliveries",
    "deliveries of what is not stored",
    "deliveries over WebSockets",
    "messages read over WebSockets",
    "confirmed acknowledgements",
    "kills",
    "power losses",
    "producers closed",
    "dead sectors",
    "delayed messages that were looked for",
    *(f"{job} of delayed messages" for job in ("Seal", "Load", "Merge", "Rewrite", "Drop")),
}

FLOW_BYTES = 16  # of a FLOW command with small numbers

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    settings = Settings(data_dir=str(tmp_path))
    create_secrets(settings)
    with silenced():
        yield lambda seed, steps=STEPS: simulate(seed, settings, steps)


def test_the_broker_keeps_its_promises(run: Run) -> None:
    seen: set[str] = set()
    for seed in SEEDS:
        result = run(seed)
        assert not result.violation, described(result, STEPS, 100)
        seen |= {what for what, count in result.counts.items() if count}
    assert seen >= COUNTED | OPERATIONS.keys()  # each of them happened


def test_the_same_seed_gives_the_same_run(run: Run, tmp_path: Path, repository: Path) -> None:
    """Also in another process, whose sets and hashes are in another order."""
    here = run(5, FEW_STEPS)
    assert run(5, FEW_STEPS).trace.hash == here.trace.hash
    assert run(6, FEW_STEPS).trace.hash != here.trace.hash
    program = (
        "import sys\nfrom messaging.settings import Settings\nfrom tests.simulation.run import simulate\n"
        "from tests.simulation.silence import silenced\n"
        f"with silenced():\n    print(simulate(5, Settings(data_dir=sys.argv[1]), {FEW_STEPS}).trace.hash)"
    )
    environ = os.environ | {"PYTHONHASHSEED": "42", "PYTHONPATH": str(repository)}
    elsewhere = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], env=environ, cwd=repository, capture_output=True, text=True, check=True
    )
    assert elsewhere.stdout.split() == [here.trace.hash]


def violations(run: Run, seeds: range) -> Iterator[str]:
    """One seed after another, as far as somebody asks."""
    return (result.violation for seed in seeds if (result := run(seed)).violation)


def test_a_receipt_before_the_disk_has_the_message_is_noticed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "CONFIG", replace(life.CONFIG, durability=Durability.LOSE_ON_POWER_LOSS))
    assert any("before the disk had it" in violation for violation in violations(run, range(2)))


def test_messages_that_a_crash_took_are_noticed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that says that it synced and did not: the messages are missed when everything is read."""
    monkeypatch.setattr(FakeFile, "sync", lambda file: None)
    monkeypatch.setattr(FakeDisk, "holds", lambda disk, data: True)
    assert any(violations(run, range(4)))


def test_a_consumer_that_is_forgotten_is_noticed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of what clients say never arrives; permits among it."""
    send = Link.send

    def lossy(link: Link, data: bytes) -> None:
        if len(data) != FLOW_BYTES:
            send(link, data)

    monkeypatch.setattr(Link, "send", lossy)
    assert any("have permits, and" in violation for violation in violations(run, range(2)))


def test_a_web_socket_that_stops_sending_is_noticed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledgements make no room in its window."""
    monkeypatch.setattr(PushWindow, "acknowledged", lambda window, count=1: None)
    assert any("do not come to wc-" in violation for violation in violations(run, range(2)))


def test_a_non_persistent_topic_that_delivers_nothing_is_noticed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DroppingShared, "share", lambda strategy, block, ranges: ([], None))
    assert any("0 of 2 messages came to shared" in violation for violation in violations(run, range(2)))


def test_a_delayed_message_that_comes_early_is_noticed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    cutoff_ms = DelayPolicy.cutoff_ms
    monkeypatch.setattr(DelayPolicy, "cutoff_ms", lambda policy, now_ms: cutoff_ms(policy, now_ms) + 300)
    assert any("ms too early" in violation for violation in violations(run, range(2)))


def test_delayed_messages_that_are_stored_and_forgotten_are_noticed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StoredRun, "next_ms", lambda stored: NEVER_MS)
    monkeypatch.setattr(StoredRun, "load_ms", lambda stored: None)
    assert any("are not delivered" in violation or "never came" in violation for violation in violations(run, range(1)))


def test_an_acknowledgement_that_is_forgotten_is_noticed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's metadata and cursors are of before: as if a checkpoint had been lost with a crash."""
    real = CursorLog.start

    async def without_deltas(cursors: CursorLog) -> None:
        await real(cursors)
        cursors.recovered.clear()

    monkeypatch.setattr(CursorLog, "start", without_deltas)
    assert any("its acknowledgement had been confirmed" in violation for violation in violations(run, range(6)))
