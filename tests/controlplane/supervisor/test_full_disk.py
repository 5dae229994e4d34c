"""A full disk under what the supervisor writes: nothing that runs is taken down by it, and what is missing is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.supervisor import lock
from controlplane.supervisor.notices import ChildLog
from tests.controlplane.supervisor import fakes
from tests.support.waiting import eventually_sync

FULL = Path("/dev/full")  # writing there is refused as on a full disk
# Says a line whenever its port is connected to.
TALKER = fakes.SERVER.replace("while True:\n    signal.pause()", "while True:\n    listener.accept(); print('a line', flush=True)")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[fakes.Running]:
    """A supervisor with one child, whose log, status and readiness files cannot be written."""
    for folder in ("run", "logs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "logs" / "broker.log").symlink_to(FULL)
    for name in ("run/supervisor.json.new", "ready.json.new"):
        (tmp_path / name).mkdir()  # no file can be written there; unlike one, it does not go with the first try
    plan = fakes.plan(tmp_path, fakes.child(tmp_path, "broker", TALKER), ready_from={"url": ["broker", "url"]})
    supervisor = fakes.Running(plan)
    yield supervisor
    supervisor.close()


def test_the_supervisor_survives_every_file_that_it_cannot_write(running: fakes.Running, tmp_path: Path) -> None:
    """It died writing a child's log, and took everything down."""
    eventually_sync(lambda: "Magnetar is ready" in running.text())
    eventually_sync(lambda: "file-not-written" in running.text() and "broker.log cannot be written" in running.text())
    assert running.process.poll() is None
    assert not (tmp_path / "ready.json").exists()
    child = json.loads((tmp_path / "run" / "broker.json").read_text())
    assert lock.alive(child["pid"])
    for name in ("run/supervisor.json.new", "ready.json.new"):  # there is space again
        (tmp_path / name).rmdir()
    assert running.ready()["url"] == child["url"]
    assert running.status()["broker"]["state"] == "ready"
    assert running.text().count("file-not-written") == 1, "said once"
    running.process.terminate()
    assert running.wait() == 0
    assert not lock.alive(child["pid"])


def test_a_log_says_what_it_lost_once_it_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    path.symlink_to(FULL)
    log, said = ChildLog(tmp_path, "broker", "json", quiet=True), list[str]()
    log.on_trouble = said.append
    log.feed(b"one\n")
    log.feed(b"two\n")
    assert log.last == ["one", "two"], "for the message when the child fails"
    assert len(said) == 1 and str(path) in said[0] and log.lost_bytes == 8
    log.close()
    path.unlink()
    log.feed(b"three\n")
    assert path.read_bytes() == b"... 8 bytes of output were lost because this file could not be written ...\nthree\n"
    assert len(said) == 2 and log.lost_bytes == 0
    log.close()


def test_the_lock_holds_though_nobody_can_be_told_whose_it_is(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(FULL)
    descriptor = lock.acquire(str(tmp_path))
    with pytest.raises(lock.AlreadyRunning):
        lock.acquire(str(tmp_path), wait_s=0)
    import os

    os.close(descriptor)


def test_a_folder_that_cannot_be_written_to_at_all(tmp_path: Path) -> None:
    log = ChildLog(tmp_path / "not there", "broker", "json", quiet=True)
    log.feed(b"one\n")
    (tmp_path / "not there").mkdir()
    log.feed(b"two\n")
    assert (tmp_path / "not there" / "broker.log").read_bytes().endswith(b"two\n")
    log.close()
