"""What is said of an engine that died, and that a run goes on when a part of it does."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs import death
from spark_jobs.config import Request, Result, progress_from, progress_path, result_from, write_json
from spark_jobs.death import HEAP_CODE, fewer_tasks, why_java_died, why_worker_died
from tests.spark_jobs.usage_files import HOUR_MS, NOON_MS, record, write_all
from tests.support.waiting import eventually_sync


@pytest.mark.parametrize(
    ("code", "kills", "said", "memory"),
    [
        (HEAP_CODE, 0, ("heap", "640m", "spark_driver_memory"), True),
        (-9, 1, ("kernel killed Java", "MiB", "spark_master is local[4]"), True),
        (-9, 0, ("from outside", "SIGKILL"), False),
        (1, 0, ("code 1",), False),
    ],
)
def test_cause_limit_and_setting_are_named(
    monkeypatch: pytest.MonkeyPatch, code: int, kills: int, said: tuple[str, ...], memory: bool
) -> None:
    monkeypatch.setattr(death, "kernel_kills", lambda: kills)
    died = why_java_died(code, "640m", 0, "local[4]")
    assert [part for part in said if part not in str(died)] == []
    assert died.memory == memory


def test_workers_that_the_kernel_kills_are_said_to_need_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(death, "kernel_kills", lambda: 5)
    assert "spark_master is local[*]" in str(why_worker_died(4, "local[*]"))
    assert not why_worker_died(5, "local[*]").memory


@pytest.mark.parametrize(
    ("master", "fewer"),
    [("local[8]", "local[4]"), ("local[*]", "local[3]"), ("local", "local[1]"), ("local[1]", "local[1]"), ("spark://a:7077",) * 2],
)
def test_half_as_many_tasks(master: str, fewer: str) -> None:
    assert fewer_tasks(master, 6) == fewer


class Slow:
    """A job of one file that becomes a pipe while Spark starts: a task that reads it waits until the test lets go of it."""

    def __init__(self, directory: Path) -> None:
        (self.file,) = write_all([record("messages_in", 3, NOON_MS - HOUR_MS)], directory / "raw")
        self.directory = directory
        self.child: subprocess.Popen[bytes] | None = None

    def start(self, run_id: str) -> None:
        raw, hours, cache = (str(self.directory / name) for name in ("raw", "hours", "cache"))
        request = Request(run_id, raw, hours, cache, now_ms=NOON_MS, master="local[1]")
        write_json(request, self.directory / "request.json")
        command = [
            sys.executable,
            "-m",
            "spark_jobs.hourly_usage",
            str(self.directory / "request.json"),
            str(self.directory / "result.json"),
        ]
        with (self.directory / "log").open("wb") as log:
            self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)

    def make_pipe(self) -> None:
        """After the plan, which looks whether the file is whole."""
        eventually_sync(lambda: progress_from(progress_path(self.directory / "result.json")) is not None, timeout_s=60)
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        self.file.replace(self.directory / "whole")
        pipe.replace(self.file)

    def wait_for_reader(self) -> int:
        """Returns when a task reads the file; it waits for as long as the descriptor is open."""
        return os.open(self.file, os.O_WRONLY)

    def reader(self) -> int:
        """The process of the task that reads the file."""
        return next(pid for pid, name, _ in self.processes() if name != "java" and self._reads(pid))

    def _reads(self, pid: int) -> bool:
        try:
            return any(link.readlink() == self.file for link in Path(f"/proc/{pid}/fd").iterdir())
        except OSError:  # it has ended
            return False

    def end(self) -> Result:
        assert self.child is not None and self.child.stdin is not None
        self.child.wait(120)
        self.child.stdin.close()
        return result_from(self.directory / "result.json")

    def processes(self) -> Iterator[tuple[int, str, int]]:
        """(pid, name, parent) of the job's own."""
        assert self.child is not None
        for path in Path("/proc").glob("[0-9]*"):
            try:
                text = (path / "stat").read_text()
            except OSError:
                continue
            name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
            if int(fields[3]) == self.child.pid:
                yield int(path.name), name, int(fields[1])


@pytest.fixture
def slow(spark: None, tmp_path: Path) -> Iterator[Slow]:
    job = Slow(tmp_path)
    yield job
    if job.child is not None and job.child.poll() is None:
        job.child.kill()
        job.child.wait()


@pytest.mark.spark
@pytest.mark.crash
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
def test_a_worker_process_that_is_killed_is_replaced_and_java_that_is_killed_is_said(slow: Slow) -> None:
    slow.start("1")
    slow.make_pipe()
    pipe = slow.wait_for_reader()
    java = next(pid for pid, name, _ in slow.processes() if name == "java")
    os.kill(slow.reader(), signal.SIGKILL)
    os.close(pipe)
    pipe = slow.wait_for_reader()  # the task once more
    os.kill(java, signal.SIGKILL)
    result = slow.end()
    os.close(pipe)
    assert "killed from outside by signal 9" in result.error
    assert result.died and not result.memory

    (slow.directory / "whole").replace(slow.file)
    slow.start("2")
    result = slow.end()
    assert (result.error, [(hour.rows, hour.sums["messages_in"]) for hour in result.hours]) == ("", [(1, 3)])
    assert dataclasses.asdict(result)["seconds"].keys() == {"plan", "start", "work", "end"}
