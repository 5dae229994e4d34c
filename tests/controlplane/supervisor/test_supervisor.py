"""The supervisor with real processes: readiness, restarts, orderly stops, and nothing left behind by a kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from controlplane.supervisor import lock
from controlplane.supervisor import watchdog as watchdog
from controlplane.supervisor.plan import ChildSpec, Plan
from tests.controlplane.supervisor import fakes
from tests.support.waiting import eventually_sync

Start = Callable[[Plan], fakes.Running]


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[fakes.Running] = []

    def begin(plan: Plan) -> fakes.Running:
        running.append(fakes.Running(plan))
        return running[-1]

    yield begin
    for supervisor in running:
        supervisor.close()


def _gone(pid: int) -> bool:
    return not lock.alive(pid)


def _ended(supervisor: fakes.Running) -> bool:
    return all(_gone(entry["pid"]) for entry in supervisor.status().values())


def test_says_when_all_are_ready_and_stops_cleanly(tmp_path: Path, start: Start) -> None:
    plan = fakes.plan(
        tmp_path,
        fakes.child(tmp_path, "broker", stop_wave=1),
        fakes.child(tmp_path, "web", after=["broker"]),
        ready_from={"broker_url": ["broker", "url"], "web_url": ["web", "url"], "tls_url": ["broker", "none"]},
        ready_fixed={"console_user": "admin", "console_password_file": "/somewhere"},
    )
    (tmp_path / "ready.json").write_text('{"pid": 1}')  # of a run that was killed
    supervisor = start(plan)
    eventually_sync(lambda: "Magnetar is ready" in supervisor.text())
    ready = supervisor.ready()
    assert ready["pid"] == supervisor.process.pid
    assert set(ready) == {"broker_url", "web_url", "pid", "console_user", "console_password_file"}
    assert ready["broker_url"].startswith("http://127.0.0.1:")
    assert ready["broker_url"] in supervisor.text() and "Magnetar is ready" in supervisor.text()
    assert {name: entry["state"] for name, entry in supervisor.status().items()} == {"broker": "ready", "web": "ready"}
    pids = [entry["pid"] for entry in supervisor.status().values()]
    supervisor.process.terminate()
    assert supervisor.wait() == 0
    assert all(_gone(pid) for pid in pids)
    assert not (tmp_path / "ready.json").exists()
    log = supervisor.text()
    assert log.index("goodbye from web") < log.index("goodbye from broker"), "stopped in reverse order"
    assert "goodbye from web" in (tmp_path / "logs" / "web.log").read_text()


def test_a_dead_child_comes_back_on_the_same_port_and_the_fact_is_visible(tmp_path: Path, start: Start) -> None:
    broker = fakes.child(tmp_path, "broker", pins={"FAKE_PORT": "url"})
    supervisor = start(fakes.plan(tmp_path, broker, ready_from={"broker_url": ["broker", "url"]}))
    url = supervisor.ready()["broker_url"]
    before = supervisor.status()["broker"]
    os.kill(before["pid"], signal.SIGKILL)
    eventually_sync(lambda: supervisor.status()["broker"]["restarts"] == 1 and supervisor.status()["broker"]["state"] == "ready")
    after = supervisor.status()["broker"]
    assert after["pid"] != before["pid"] and after["last_exit"] == -signal.SIGKILL and after["since"] > before["since"]
    assert before["exits"] == [] and len(after["exits"]) == 1 and before["since"] < after["exits"][0] <= after["since"]
    assert json.loads((tmp_path / "run" / "broker.json").read_text())["url"] == url
    deaths = [json.loads(line) for line in supervisor.text().splitlines() if "child-died" in line]
    assert [(line["child"], line["exit"], line["again_in_s"], line["level"]) for line in deaths] == [("broker", -9, 0.2, "error")]


def test_a_child_that_cannot_be_configured_ends_all_with_its_own_words(tmp_path: Path, start: Start) -> None:
    script = "import sys; print('magnetar broker: port 6650 is in use by somebody', file=sys.stderr); sys.exit(2)"
    supervisor = start(fakes.plan(tmp_path, fakes.child(tmp_path, "web"), fakes.child(tmp_path, "broker", script)))
    assert supervisor.wait() == 2
    last = [line for line in supervisor.text().splitlines() if line.startswith("magnetar: ")]
    assert last == ["magnetar: broker could not start (exit 2): port 6650 is in use by somebody"]
    assert "Traceback" not in supervisor.text()
    assert not (tmp_path / "ready.json").exists()


def test_a_program_that_is_not_there_ends_all(tmp_path: Path, start: Start) -> None:
    supervisor = start(fakes.plan(tmp_path, ChildSpec("valkey", ["/no/such/program"], ready_socket="/no/such/socket")))
    assert supervisor.wait() == 1
    assert "valkey could not start (exit 127): /no/such/program: No such file or directory" in supervisor.text()


def test_a_failed_preparation_ends_all_and_what_depends_on_it_never_starts(tmp_path: Path, start: Start) -> None:
    prepare = ChildSpec("prepare", [sys.executable, "-c", "import sys; sys.exit('the migration did not work')"])
    supervisor = start(fakes.plan(tmp_path, prepare, fakes.child(tmp_path, "web", after=["prepare"])))
    assert supervisor.wait() == 1
    assert "prepare could not start (exit 1): the migration did not work" in supervisor.text()
    assert not (tmp_path / "logs" / "web.log").read_text()


def test_a_child_after_a_preparation_starts_when_it_is_done(tmp_path: Path, start: Start) -> None:
    mark = tmp_path / "prepared"
    prepare = ChildSpec("prepare", [sys.executable, "-c", f"open({str(mark)!r}, 'w')"])
    web = fakes.child(tmp_path, "web", f"import os; assert os.path.exists({str(mark)!r})\n" + fakes.SERVER, after=["prepare"])
    supervisor = start(fakes.plan(tmp_path, prepare, web))
    supervisor.ready()
    assert {name: entry["state"] for name, entry in supervisor.status().items()} == {"prepare": "done", "web": "ready"}
    assert supervisor.status()["web"]["restarts"] == 0


def test_a_child_that_ignores_the_stop_is_killed_in_time(tmp_path: Path, start: Start) -> None:
    supervisor = start(fakes.plan(tmp_path, fakes.child(tmp_path, "worker", fakes.STUBBORN, stop_timeout_s=0.3)))
    supervisor.ready()
    pid = supervisor.status()["worker"]["pid"]
    supervisor.process.terminate()
    assert supervisor.wait(5) == 0
    assert _gone(pid) and '"event": "child-too-slow"' in supervisor.text()


def test_a_second_interrupt_does_not_wait(tmp_path: Path, start: Start) -> None:
    supervisor = start(fakes.plan(tmp_path, fakes.child(tmp_path, "worker", fakes.STUBBORN, stop_timeout_s=600)))
    supervisor.ready()
    supervisor.process.send_signal(signal.SIGINT)
    eventually_sync(lambda: "stopping" in supervisor.text())
    supervisor.process.send_signal(signal.SIGINT)
    assert supervisor.wait(5) == 0


def test_killed_it_leaves_no_process_no_port_and_no_lock(tmp_path: Path, start: Start) -> None:
    children = (
        fakes.child(tmp_path, "broker", pins={"FAKE_PORT": "url"}),
        fakes.child(tmp_path, "worker", fakes.STUBBORN),  # would ignore SIGTERM
        fakes.child(tmp_path, "jobs", fakes.PARENT),  # has a child of its own
    )
    plan = fakes.plan(tmp_path, *children, ready_from={"broker_url": ["broker", "url"]})
    supervisor = start(plan)
    port = urlsplit(supervisor.ready()["broker_url"]).port
    assert port
    pids = [entry["pid"] for entry in supervisor.status().values()]
    supervisor.process.kill()
    supervisor.wait()
    with pytest.raises(lock.AlreadyRunning):  # held while the children end, so that nobody starts into their ports
        lock.acquire(str(tmp_path), wait_s=0)
    os.close(lock.acquire(str(tmp_path)))
    eventually_sync(lambda: all(_gone(pid) for pid in pids), 2)
    assert not watchdog.living_groups() & set(pids), "nor what they had started"
    socket.create_server(("127.0.0.1", port)).close()
    again = start(plan)
    assert again.ready()["pid"] == again.process.pid


def test_children_end_even_if_supervisor_and_watchdog_are_killed_together(tmp_path: Path, start: Start) -> None:
    supervisor = start(fakes.plan(tmp_path, fakes.child(tmp_path, "broker")))
    supervisor.ready()
    pid = supervisor.status()["broker"]["pid"]
    listing = Path(f"/proc/{supervisor.process.pid}/task/{supervisor.process.pid}/children").read_text().split()
    (watchdog_pid,) = {int(number) for number in listing} - {pid}
    os.kill(watchdog_pid, signal.SIGKILL)
    supervisor.process.kill()
    eventually_sync(lambda: _gone(pid), 5)


def test_a_second_supervisor_is_refused_with_the_first_ones_process_id(tmp_path: Path, start: Start) -> None:
    supervisor = start(fakes.plan(tmp_path, fakes.child(tmp_path, "broker")))
    supervisor.ready()
    with pytest.raises(lock.AlreadyRunning, match=f"in use by process {supervisor.process.pid}: stop it first"):
        lock.acquire(str(tmp_path))


def test_it_stays_small(tmp_path: Path, start: Start) -> None:
    supervisor = start(fakes.plan(tmp_path, fakes.child(tmp_path, "broker")))
    supervisor.ready()
    lines = Path(f"/proc/{supervisor.process.pid}/smaps_rollup").read_text().splitlines()
    pss_kib = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    assert pss_kib < 15 * 1024


def test_ports_of_its_own_lines_survive_a_stderr_nobody_reads(tmp_path: Path, start: Start) -> None:
    """A child that says a lot must not block because the supervisor's stderr is a full pipe."""
    script = "print('x' * 200_000, flush=True)\n" + fakes.SERVER
    plan = fakes.plan(tmp_path, fakes.child(tmp_path, "broker", script))
    reader, writer = os.pipe()
    descriptor = lock.acquire(str(tmp_path))
    plan_file = tmp_path / "plan.json"
    plan_file.write_text(plan.to_json())
    import subprocess

    with plan_file.open("rb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "controlplane.supervisor", str(file.fileno()), str(descriptor)],
            stdout=subprocess.DEVNULL,
            stderr=writer,
            pass_fds=(file.fileno(), descriptor),
        )
    os.close(descriptor)
    try:
        eventually_sync(lambda: (tmp_path / "ready.json").exists())
        assert (tmp_path / "logs" / "broker.log").stat().st_size > 200_000
    finally:
        process.terminate()
        assert process.wait(15) == 0
        os.close(reader)
        os.close(writer)
