"""Usage of brokers on other machines: their files come here whole and once, and one directory alone computes hours."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from messaging.adminrpc.base import A, Method, R
from messaging.adminrpc.brokers import BrokerSeen, BrokersSeen
from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.methods import BROKERS_LIST, USAGE_FLUSH, USAGE_LIST_FILES, USAGE_READ_FILE
from messaging.adminrpc.usage import UsageFileList, UsageFileRead, UsageFlushed
from messaging.broker.usage import files
from messaging.broker.usage.boot import BootFile
from messaging.broker.usage.record import UsageRecord
from messaging.broker.usage.writer import write
from messaging.errors import InvalidName, MagnetarError, NotFound, NotReady
from messaging.settings import Settings
from messaging.usage_schema import COLUMNS
from tests.support.brokers.worker_broker import START
from workers.environment import Environment, Failed
from workers.models import UsageRun
from workers.tasks.usage_job import run_usage_job
from workers.usage_files import never_taken, take_usage_files
from workers.usage_home import home, is_home, move_here, pools_here

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
DAYS = 37


def nothing() -> None:
    return None


class Machines(TypedCalls):
    """Brokers, each with a data directory of its own."""

    def __init__(self, folder: Path, *broker_ids: str) -> None:
        self.roots = {broker_id: folder / broker_id / "usage" / "raw" for broker_id in broker_ids}
        self.away: set[str] = set()
        self.reads = 0
        self.on_read: Callable[[UsageFileRead], None] = lambda request: None

    def perform(self, method: Method[R, A], request: R) -> A:
        answer: Any
        if method.name == BROKERS_LIST.name:
            answer = BrokersSeen(brokers=[BrokerSeen(broker_id=each, live=True, broker_url="") for each in self.roots])
            return answer
        if method.name == USAGE_FLUSH.name:
            answer = UsageFlushed(files=[], rows=0)
            return answer
        assert isinstance(request, UsageFileList | UsageFileRead)
        if request.broker_id in self.away:
            raise NotReady(f"broker {request.broker_id} is not running")
        root = self.roots[request.broker_id]
        if isinstance(request, UsageFileList):
            answer = files.list_files(root, request)
        else:
            self.reads += 1
            self.on_read(request)
            answer = files.read_piece(root, request.usage_folder, request.file_name, request.file_offset)
        return answer

    def write(self, broker_id: str, at: datetime) -> Path:
        start_ms = int(at.timestamp()) * 1000
        values: dict[str, Any] = {name: "" if kind == "string" else 0 for name, kind in COLUMNS}
        values |= {"source": broker_id, "boot_epoch": 1, "interval_start_ms": start_ms, "interval_end_ms": start_ms + 60_000}
        values |= {"seq": start_ms // 60_000, "tenant": "acme", "meter": "messages_in", "value": 1}
        return write([UsageRecord(**values)], self.roots[broker_id], 0)


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path, "b1", "b2")


@pytest.fixture
def here(tmp_path: Path, machines: Machines) -> Environment:
    settings = Settings(data_dir=str(tmp_path / "worker"), broker_rpc_url="http://127.0.0.1:1")
    return Environment(settings, machines, now=lambda: NOW)


def taken(here: Environment) -> dict[str, bytes]:
    root = here.settings.data_path / "usage" / "raw"
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def stored(machines: Machines) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for root in machines.roots.values()
        for path in root.rglob("*")
        if path.is_file()
    }


def test_files_of_all_brokers_come_once(machines: Machines, here: Environment) -> None:
    for minute in range(3):
        machines.write("b1", NOW - timedelta(minutes=minute))
        machines.write("b2", NOW - timedelta(days=minute))
    BootFile(machines.roots["b1"], "b1", 1, 0).covered(5, ended=False)
    machines.write("b1", NOW - timedelta(days=DAYS + 5))
    assert take_usage_files(here, DAYS, nothing) == 7
    assert len(taken(here)) == 2 * 6 + 1
    assert taken(here).items() <= stored(machines).items()
    reads = machines.reads
    assert take_usage_files(here, DAYS, nothing) == 0
    assert machines.reads == reads + 1, "the file of a boot that goes on may have changed"
    BootFile(machines.roots["b1"], "b1", 1, 0).covered(9, ended=True)
    assert take_usage_files(here, 1, nothing) == 1
    assert take_usage_files(here, 1, nothing) == 0


def test_one_that_is_away_loses_nothing_and_holds_up_nobody(machines: Machines, here: Environment) -> None:
    machines.write("b1", NOW)
    machines.write("b2", NOW)
    machines.away = {"b1"}
    with pytest.raises(NotReady, match="b1"):
        take_usage_files(here, DAYS, nothing)
    assert len(taken(here)) == 2 and never_taken(here, ["b1", "b2"]) == ["b1"]
    machines.write("b1", NOW - timedelta(days=1))
    machines.away = set()
    assert take_usage_files(here, DAYS, nothing) == 2
    assert taken(here) == stored(machines) and never_taken(here, ["b1", "b2"]) == []


@pytest.mark.parametrize("at", range(4))
def test_a_run_that_ends_anywhere_is_gone_on_with(machines: Machines, here: Environment, at: int) -> None:
    """Each read fails once: of a manifest, and of a file."""
    machines.write("b1", NOW)
    machines.write("b1", NOW - timedelta(hours=1))
    reads = 0

    def fail(request: UsageFileRead) -> None:
        nonlocal reads
        reads += 1
        if reads == at + 1:
            raise NotReady("cut off")

    machines.on_read = fail
    with pytest.raises(NotReady):
        take_usage_files(here, DAYS, nothing)
    names = set(taken(here))
    assert all(name.replace(".json", ".parquet") in names for name in names), "a manifest has its file"
    take_usage_files(here, DAYS, nothing)
    assert taken(here) == stored(machines)


def test_what_became_part_of_another_file_is_not_taken_again(machines: Machines, here: Environment) -> None:
    first, second = machines.write("b1", NOW), machines.write("b1", NOW + timedelta(minutes=1))
    take_usage_files(here, DAYS, nothing)
    root = here.settings.data_path / "usage" / "raw"
    folder = root / first.parent.relative_to(machines.roots["b1"])
    manifests = [json.loads(path.with_suffix(".json").read_bytes()) for path in (first, second)]
    members = [[f"{folder.relative_to(root).as_posix()}/{each['file']}", each["sha256"]] for each in manifests]
    whole = {**manifests[0], "file": "whole.parquet", "members": members}
    (folder / "whole.json").write_text(json.dumps(whole))
    for path in (first, second):
        (folder / path.name).unlink()
        (folder / path.with_suffix(".json").name).unlink()
    assert take_usage_files(here, DAYS, nothing) == 0


def test_a_file_that_is_not_what_its_manifest_says_is_not_taken(machines: Machines, here: Environment) -> None:
    machines.write("b1", NOW).write_bytes(b"other")
    with pytest.raises(MagnetarError, match="broker b1 is not what its manifest says"):
        take_usage_files(here, DAYS, nothing)
    assert not taken(here)


def test_large_files_come_in_pieces(machines: Machines, here: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES", 100)
    monkeypatch.setattr(files, "PAGE_FILES", 2)
    for minute in range(3):
        machines.write("b1", NOW + timedelta(minutes=minute))
    assert take_usage_files(here, DAYS, nothing) == 3
    assert taken(here) == stored(machines)


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("../secrets", "a.json"),
        ("date=2026-11-27/hour=08/..", "a.json"),
        ("boots", "../x.json"),
        ("boots", "a.key"),
        ("", "a.json"),
    ],
)
def test_nothing_but_usage_files_is_read(tmp_path: Path, folder: str, name: str) -> None:
    with pytest.raises(InvalidName):
        files.read_piece(tmp_path, folder, name, 0)
    with pytest.raises(NotFound):
        files.read_piece(tmp_path, "boots", "a.json", 0)
    if folder not in ("", "boots"):
        with pytest.raises(InvalidName):
            files.list_files(tmp_path, UsageFileList(usage_folder=folder))


def test_methods_are_of_the_worker() -> None:
    from messaging.adminrpc.callers import callers_of

    for method in (USAGE_LIST_FILES, USAGE_READ_FILE):
        assert callers_of(method.name) == ["worker", "broker"]


@pytest.mark.django_db
class TestHome:
    def test_the_first_directory_is_it_until_it_moves(self, here: Environment, tmp_path: Path) -> None:
        other = Settings(data_dir=str(tmp_path / "other"), broker_rpc_url="http://127.0.0.1:1")
        assert is_home(here.settings, NOW) and not is_home(other, NOW)
        assert pools_here(here.settings, NOW) == "" and pools_here(other, NOW) == "control,maintenance,redrives,notices"
        move_here(other, NOW)
        assert is_home(other, NOW) and not is_home(here.settings, NOW)
        assert "other" in str(home())
        assert is_home(Settings(data_dir=str(tmp_path)), NOW), "broker and workers share a data directory"

    def test_another_directory_computes_nothing(self, here: Environment, tmp_path: Path) -> None:
        move_here(Settings(data_dir=str(tmp_path / "other")), NOW)
        with pytest.raises(Failed, match="move-here"):
            run_usage_job(here, "t", nothing)

    def test_without_files_that_were_never_taken_nothing_is_computed(self, machines: Machines, here: Environment) -> None:
        machines.away = {"b2"}
        with pytest.raises(Failed, match="b2 were never taken"):
            run_usage_job(replace(here, now=lambda: START), "t", nothing)
        assert not UsageRun.objects.exists()
