"""The job on a cluster of Spark's own: a master and two workers, from the PySpark package, each a Java of its own."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from messaging.broker.usage.record import UsageRecord
from spark_jobs.config import Request, progress_from, progress_path, result_from, run_directory, write_json
from spark_jobs.java import Java, choose_java
from tests.spark_jobs.job import Job
from tests.spark_jobs.usage_files import HOUR_MS, MINUTE_MS, NOON_MS, record, write_all
from tests.support.waiting import eventually_sync

pytestmark = [
    pytest.mark.thorough,  # the same job runs on a Spark of this machine, whose workers are killed, in every run: test_death
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(600),
]

_REGISTERED = re.compile(r"Registering worker")


class Cluster:
    """Processes of this machine that find one another over the loopback address."""

    def __init__(self, java: Java, directory: Path) -> None:
        import pyspark

        self._directory = directory
        home = Path(pyspark.__file__).parent
        self._class = str(home / "bin" / "spark-class")
        self._environ = {
            **os.environ,
            "JAVA_HOME": str(java.home),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_WORKER_DIR": str(directory),
            "SPARK_NO_DAEMONIZE": "1",
        }
        self._children: list[subprocess.Popen[bytes]] = []
        self._start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.url = eventually_sync(lambda: self._found(r"spark://127\.0\.0\.1:\d+"), timeout_s=60)
        self.workers = [self._worker(index) for index in range(2)]
        eventually_sync(lambda: len(_REGISTERED.findall(self._log("master"))) == 2, timeout_s=60)

    def _worker(self, index: int) -> subprocess.Popen[bytes]:
        options = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "600m"]
        return self._start(f"worker-{index}", "org.apache.spark.deploy.worker.Worker", *options, self.url)

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with (self._directory / f"{name}.log").open("wb") as log:
            child = subprocess.Popen([self._class, *words], env=self._environ, stdout=log, stderr=log, start_new_session=True)
        self._children.append(child)
        return child

    def _log(self, name: str) -> str:
        return (self._directory / f"{name}.log").read_text()

    def _found(self, pattern: str) -> str:
        match = re.search(pattern, self._log("master"))
        return match[0] if match else ""

    def kill_worker_of(self, pid: int) -> None:
        """The worker that started this process, with its executors; the process too, which has a group of its own."""
        pids = [worker.pid for worker in self.workers]
        at = pid
        while at not in pids:
            assert at > 1, "no process of a worker"
            at = parent_of(at)
        os.killpg(at, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        for child in self._children:
            child.terminate()
        for child in self._children:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def parent_of(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text[text.rindex(")") + 2 :].split()[1])


def reader_of(descriptor: int) -> int:
    """The process, other than this one, that has the same pipe open."""
    pipe = os.fstat(descriptor).st_ino

    def find() -> int:
        for folder in Path("/proc").glob("[0-9]*/fd"):
            try:
                if int(folder.parts[2]) != os.getpid() and any(path.stat().st_ino == pipe for path in folder.iterdir()):
                    return int(folder.parts[2])
            except OSError:
                continue
        return 0

    return eventually_sync(find)


@pytest.fixture
def cluster(spark: None, tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = Cluster(choose_java(os.environ.get("MAGNETAR_JAVA_HOME", ""), os.environ, tmp_path), folder)
    yield made
    made.close()


def several_hours() -> list[UsageRecord]:
    """Six hours of four topics, with copies and an altered copy: something for each step of the job."""
    chance = random.Random(4)
    records = [
        record(meter, chance.randint(1, 10**6), NOON_MS + minute * MINUTE_MS, seq=minute, topic=f"persistent://acme/orders/{topic}")
        for meter in ("messages_in", "bytes_out", "stored_bytes")
        for topic in range(4)
        for minute in range(0, 360, 3)
    ]
    return [*records, *records[40:60], records[7]._replace(value=1)]


def hours_of(directory: Path, run_id: str) -> dict[str, bytes]:
    root = run_directory(directory / "hours", run_id)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*.parquet"))}


def test_a_cluster_finds_the_same_to_the_byte_also_when_a_worker_is_killed(
    cluster: Cluster, new_job: Callable[[str], Job], tmp_path: Path
) -> None:
    here = new_job("here")
    records = several_hours()
    for part in (records, records[40:60], records[7:8]):
        write_all(part, here.raw)
    expected = here.run(NOON_MS + 10 * HOUR_MS)
    directory = tmp_path / "there"
    request = Request(
        "0001",
        str(here.raw),
        str(directory / "hours"),
        str(directory / "cache"),
        NOON_MS + 10 * HOUR_MS,
        master=cluster.url,
    )
    directory.mkdir()
    write_json(request, tmp_path / "request.json")

    def run() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "spark_jobs.hourly_usage", str(tmp_path / "request.json"), str(tmp_path / "result.json")]
        with (tmp_path / "log").open("wb") as log:
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)

    slow = sorted(here.raw.rglob("*.parquet"))[0]
    data = slow.read_bytes()
    child = run()
    # A task on one of the two workers waits in a pipe in place of a file; that worker is killed, with all that it started.
    eventually_sync(lambda: progress_from(progress_path(tmp_path / "result.json")) is not None, timeout_s=60)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pipe").replace(slow)
    pipe = os.open(slow, os.O_WRONLY)
    (tmp_path / "whole").write_bytes(data)
    (tmp_path / "whole").replace(slow)
    cluster.kill_worker_of(reader_of(pipe))
    os.close(pipe)
    assert child.wait(300) == 0, (tmp_path / "log").read_text()[-4000:]
    assert child.stdin is not None
    child.stdin.close()
    result = result_from(tmp_path / "result.json")
    assert (result.hours, result.quarantined, result.duplicates, result.holes) == (
        expected.hours,
        expected.quarantined,
        expected.duplicates,
        expected.holes,
    )
    assert hours_of(directory, "0001") == hours_of(here.directory, "0001")
