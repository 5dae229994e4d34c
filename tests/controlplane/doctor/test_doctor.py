"""`magnetar doctor`: what it finds wrong it names, with what to do; what is well it says so."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controlplane import datadir
from controlplane.backup import last
from controlplane.doctor import checks, report, running
from controlplane.doctor.checks import Finding
from controlplane.supervisor import valkey
from controlplane.supervisor.status import running_state, write_json
from messaging.metrics import Sample, exposition
from messaging.protocol import hot_extensions
from messaging.settings import Settings
from messaging.storage.disk_reserve import of_broker, of_database


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=str(tmp_path), broker_port=0, web_port=0, ws_port=0)


def only(findings: Any) -> Finding:
    (finding,) = findings
    assert isinstance(finding, Finding)
    return finding


def test_every_finding_that_is_not_well_says_what_to_do(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    datadir.prepare(settings)
    (tmp_path / "secrets" / "superuser.token").chmod(0o644)
    monkeypatch.setattr(checks, "FREE_BYTES_WARN", 1 << 62)
    monkeypatch.setattr(checks, "SYNC_SLOW_MS", 0.0)
    monkeypatch.setattr(checks, "SYNC_UNREAL_MS", 0.0)
    monkeypatch.setattr(valkey, "binary", lambda: None)
    monkeypatch.setattr(hot_extensions, "COMPILED", tmp_path)
    findings = [finding for check in (*checks.INSTALLATION, *checks.DATA) for finding in check(settings)]
    levels = {finding.what: finding.level for finding in findings}
    expected = {"Secrets": "fail", "Disk space": "warn", "Disk sync": "warn", "Live pages": "warn", "Hot loops": "warn"}
    assert levels | expected == levels
    assert [finding.what for finding in findings if finding.level != "ok" and not finding.do] == []


def test_an_old_python(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "PYTHON_LEAST", (9, 9))
    assert only(checks.python(settings)).level == "fail"


def test_without_spark_usage_is_computed_unless_a_cluster_is_to_do_it(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert only(checks.java(settings)).level == "ok" and "on one core" in only(checks.java(settings)).says
    found = only(checks.java(msgspec.structs.replace(settings, spark_master="spark://cluster:7077")))
    assert found.level == "warn" and "not aggregated" in found.says and "magnetar[spark]" in found.do


def test_what_is_told_of_plain_loops_can_be_done_without_a_checkout(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hot_extensions, "COMPILED", tmp_path)
    assert "make setup" in only(checks.hot_loops(settings)).do
    monkeypatch.setattr(checks, "CHECKOUT", tmp_path / "pyproject.toml")
    assert "make" not in only(checks.hot_loops(settings)).do


def test_hot_loops_compiled_from_the_sources_as_they_are(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hot_extensions, "COMPILED", tmp_path)
    hot_extensions.folder().mkdir()
    for source in hot_extensions.SOURCES:
        assert only(checks.hot_loops(settings)).level == "warn"
        (hot_extensions.folder() / (source.stem + hot_extensions.SUFFIX)).touch()
    assert only(checks.hot_loops(settings)).level == "ok"


def test_secrets_of_a_first_start_are_private(settings: Settings) -> None:
    datadir.prepare(settings)
    assert only(checks.permissions(settings)).level == "ok"


def test_when_the_last_backup_was_taken(settings: Settings, tmp_path: Path) -> None:
    assert list(checks.last_backup(settings)) == []  # nothing was stored yet
    datadir.prepare(settings)
    assert only(checks.last_backup(settings)).level == "warn" and "unknown" in only(checks.last_backup(settings)).says
    now_ms = int(time.time() * 1000)
    last.record(tmp_path, last.LastBackup(now_ms - 3_600_000, str(tmp_path), 5 << 20))
    assert only(checks.last_backup(settings)) == Finding("Backup", "ok", f"the last one is 1.0 hours old, 5 MiB in {tmp_path}")
    last.record(tmp_path, last.LastBackup(now_ms - 50 * 3_600_000, str(tmp_path / "moved"), 5 << 20))
    finding = only(checks.last_backup(settings))
    assert finding.level == "warn" and "50.0 hours" in finding.says and "not there now" in finding.says


def test_a_port_of_somebody_else(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = Settings(data_dir=settings.data_dir, broker_port=0, ws_port=0, web_port=listener.getsockname()[1])
        finding = only(checks.free_ports(taken))
    assert finding.level == "fail" and f"process {os.getpid()}" in finding.says and "--web-port" in finding.do
    assert only(checks.free_ports(settings)).level == "ok"


def test_a_disk_that_cannot_be_synced(tmp_path: Path) -> None:
    assert only(checks.sync_latency(tmp_path / "missing")).level == "fail"


def _state(folder: Path, **child: Any) -> dict[str, Any]:
    entry = {"name": "broker", "pid": os.getpid(), "state": "ready", "restarts": 0, "last_exit": None, "since": "now"} | child
    state = {"pid": os.getpid(), "ready_s": 2.5, "children": [entry]}
    (folder / "run").mkdir(exist_ok=True)
    write_json(folder / "run" / "supervisor.json", state)
    return state


def test_a_running_platform(settings: Settings, tmp_path: Path) -> None:
    _state(tmp_path)
    findings = {finding.what: finding for finding in running.running(settings)}
    assert findings["Platform"].level == "ok" and str(os.getpid()) in findings["Platform"].says
    assert findings["Start"].says == "took 2.5 s"
    assert "broker" in findings["Memory"].says


def test_a_child_that_is_down_and_one_that_came_back(settings: Settings, tmp_path: Path) -> None:
    _state(tmp_path, state="backing-off", restarts=3)
    findings = {finding.what: finding for finding in running.running(settings)}
    assert findings["Platform"].level == "fail" and "broker is backing-off" in findings["Platform"].says
    assert findings["Restarts"].level == "warn" and "broker 3 times" in findings["Restarts"].says


def test_a_process_that_listens_and_is_not_ready(settings: Settings, tmp_path: Path) -> None:
    _state(tmp_path)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        write_json(tmp_path / "run" / "web.json", {"web_url": f"http://127.0.0.1:{closed.getsockname()[1]}"})
        findings = {finding.what: finding for finding in running.running(settings)}
    assert findings["Readiness of web"].level == "fail"


def test_a_process_that_hangs_and_how_to_end_it(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*arguments: Any, **named: Any) -> None:
        raise TimeoutError("timed out")

    _state(tmp_path)
    write_json(tmp_path / "run" / "broker.json", {"ws_url": "ws://127.0.0.1:1", "pid": 4711})
    monkeypatch.setattr(urllib.request, "urlopen", silent)
    (found,) = (finding for finding in running.running(settings) if finding.what == "Readiness of broker")
    assert found.level == "fail" and "no answer within" in found.says and "end process 4711" in found.do


def test_processes_that_systemd_started(settings: Settings, tmp_path: Path) -> None:
    """Of a machine of a fleet it was said that nothing ran there."""
    assert [finding.says for finding in running.running(settings)] == ["not running in this data directory"]
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "run" / "broker.json", {"ws_url": "ws://127.0.0.1:1", "pid": os.getpid()})
    write_json(tmp_path / "run" / "worker.json", {"pid": ended.pid})
    alive, gone, readiness = running.running(settings)
    assert alive.level == "ok" and f"broker {os.getpid()}" in alive.says
    assert gone.level == "fail" and "worker" in gone.says and gone.do
    assert readiness.what == "Readiness of broker" and readiness.level == "fail"


def test_the_state_of_a_platform_that_was_killed_counts_for_nothing(settings: Settings, tmp_path: Path) -> None:
    state = _state(tmp_path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    write_json(tmp_path / "run" / "supervisor.json", state | {"pid": ended.pid})
    assert running_state(settings.data_path) is None


def test_memory_is_summed_over_a_process_and_what_it_started() -> None:
    child = subprocess.Popen([sys.executable, "-c", "print(1, flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None and child.stdout.readline()
        assert child.pid in running.family(os.getpid())
        state = {"pid": os.getpid(), "children": [{"name": "python", "pid": child.pid, "state": "ready"}]}
        memory = running.memory_mib(state)
        assert set(memory) == {"supervisor", "python"} and memory["python"] > 1
    finally:
        child.communicate(b"\n")


def test_the_report_as_json(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    code = report.run(settings, as_json=True)
    value = json.loads(capsys.readouterr().out)
    assert code == (1 if any(finding["level"] == "fail" for finding in value["findings"]) else 0)
    assert value["supervisor"] is None and value["memory_mib_total"] == 0
    assert {"Python", "Live pages", "Data directory", "Platform"} <= {finding["what"] for finding in value["findings"]}


def test_the_report_for_people(settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _state(tmp_path, state="backing-off")
    assert report.run(settings, as_json=False) == 1
    text = capsys.readouterr().out
    assert "FAIL  Platform: " in text and "\n      -> see the logs in " in text


@pytest.mark.parametrize(("failing", "level", "says"), [(0, "ok", "all 2 are working"), (1, "fail", "failing: keep_alive")])
def test_a_background_loop_that_fails_is_named(failing: int, level: str, says: str) -> None:
    samples = [Sample("magnetar_background_failing", value, (loop,)) for loop, value in (("keep_alive", failing), ("pull_feed", 0))]
    finding = running.background_finding(exposition(samples, private=False).decode(), Path("broker.log"), "broker-2")
    assert (finding.what, finding.level, finding.says) == ("Background loops of broker-2", level, says)
    assert ("background.failed" in finding.do) == bool(failing)


def test_damage_is_said() -> None:
    def finding(damage: int) -> Finding:
        samples = [
            Sample("magnetar_storage_damage_total", damage, ("cursor",)),
            Sample("magnetar_storage_damage_total", 0, ("delivery",)),
        ]
        return running.storage_finding(exposition(samples, private=False).decode(), Path("broker.log"))

    assert finding(0).level == "ok"
    damaged = finding(3)
    assert damaged.level == "fail" and "3 times in cursor" in damaged.says and "delivery" not in damaged.says


def test_a_reserve_that_was_never_made_or_was_given_back_is_said(settings: Settings, tmp_path: Path) -> None:
    """A disk that was full at the very first start has none; it was said to have been given back, of the broker's alone."""
    assert only(checks.reserve_findings(settings)).level == "ok", "nobody has run here"
    for folder in ("broker", "control"):
        (tmp_path / folder).mkdir()
    never_made = list(checks.reserve_findings(settings))
    assert [finding.level for finding in never_made] == ["fail", "fail"]
    assert all("are missing" in finding.says and finding.do.startswith("free some space") for finding in never_made)
    kept = [of_broker(settings), of_database(tmp_path / "control" / "db.sqlite3", settings)]
    assert all(reserve.fill() for reserve in kept)
    assert only(checks.reserve_findings(settings)).level == "ok"
    assert kept[1].release()
    assert str(kept[1].path) in only(checks.reserve_findings(settings)).says


def test_files_that_others_may_read(settings: Settings, tmp_path: Path) -> None:
    datadir.prepare(settings)
    (tmp_path / "segment").write_bytes(b"")
    (tmp_path / "segment").chmod(0o644)
    tmp_path.chmod(0o755)
    warned = {finding.what: finding for finding in checks.permissions(settings)}
    assert warned["Secrets"].level == "ok"
    assert warned["Privacy"].level == "warn" and "segment" in warned["Privacy"].says
    tmp_path.chmod(0o700)
    assert [finding.what for finding in checks.permissions(settings)] == ["Secrets"]


def test_it_says_who_was_turned_away_by_the_http_listeners() -> None:
    samples = [
        Sample("magnetar_http_requests_turned_away_total", 3, ("public", "requests")),
        Sample("magnetar_http_requests_turned_away_total", 1, ("rpc", "internal")),
        Sample("magnetar_http_connections_made_room_total", 9, ("public",)),
        Sample("magnetar_http_connections_unread_total", 2, ("public",)),
    ]
    finding = running.http_listeners("broker", exposition(samples, private=False).decode())
    assert finding.level == "warn"
    assert "4 requests refused with 503" in finding.says
    assert "2 connections closed because they did not read responses" in finding.says
    quiet = [Sample("magnetar_http_requests_turned_away_total", 0, ("public", "requests"))]
    assert running.http_listeners("web", exposition(quiet, private=False).decode()).level == "ok"
