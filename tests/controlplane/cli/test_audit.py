"""`magnetar audit`, with no platform running."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.controlplane.cli.command_line import magnetar, refused


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("platform")
    for name in ("ada", "bob"):
        assert magnetar("users", "add", name, "--data-dir", str(folder)).returncode == 0
    return folder


def test_the_log_is_verified_against_a_head_that_was_kept(data: Path, tmp_path: Path) -> None:
    head = magnetar("audit", "head", "--data-dir", str(data))
    assert head.returncode == 0, head.stderr
    kept = tmp_path / "heads"
    kept.write_text(head.stdout)
    shown = magnetar("audit", "verify", "--head", str(kept), "--data-dir", str(data))
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, "The audit log is intact."), shown.stderr
    with closing(sqlite3.connect(data / "control" / "db.sqlite3")) as database, database:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute("UPDATE tenants_auditrecord SET role = 'user:eve' WHERE id = 1")
        database.execute("DROP TRIGGER audit_record_update")
        database.execute("UPDATE tenants_auditrecord SET role = 'user:eve' WHERE id = 1")
    shown = magnetar("audit", "verify", "--json", "--data-dir", str(data))
    report = json.loads(shown.stdout)
    assert (shown.returncode, report["intact"], report["problem_count"]) == (1, False, 2)
    assert report["problems"][0] == "record 1 was changed: its hash does not fit what it says"


def test_an_export_that_is_none_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text('{"id": 1}\n')
    assert "line 1 is not a record" in refused(magnetar("audit", "verify", "--export", str(path), "--data-dir", str(tmp_path)))
