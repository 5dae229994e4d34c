"""`magnetar users` and `magnetar keys`, with no platform running: what they change is there at the next start."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tests.controlplane.cli.command_line import magnetar, refused


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("platform")
    shown = magnetar("users", "add", "ada", "--tenant", "public", "--role", "owner", "--data-dir", str(folder))
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("added ada, owner of public\npassword: ")
    return str(folder)


def test_an_added_user_is_listed(data: str) -> None:
    assert "ada\t-\tpublic (owner)\n" in magnetar("users", "list", "--data-dir", data).stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("users", "add", "Ada"), "user 'Ada' already exists"),
        (("users", "add", "a b"), "name 'a b': Enter a valid username"),
        (("users", "add", "eve", "--tenant", "nowhere"), "tenant 'nowhere' does not exist, so the user was not added"),
        (("users", "password", "eve"), "user 'eve' does not exist"),
        (("users", "remove-second-factors", "eve"), "user 'eve' does not exist"),
        (("users", "deactivate", "admin"), "'admin' is the only platform administrator"),
        (("keys", "retire-signing", "0000"), "key '0000' does not exist"),
    ],
)
def test_a_refused_change_of_accounts_is_said_in_a_line(data: str, arguments: tuple[str, ...], says: str) -> None:
    assert refused(magnetar(*arguments, "--data-dir", data)).startswith(says)
    with closing(sqlite3.connect(Path(data) / "control" / "db.sqlite3")) as database:
        assert database.execute("select username from tenants_user where username in ('eve', 'Ada', 'a b')").fetchall() == []


def test_lost_second_factors_are_removed(data: str) -> None:
    with closing(sqlite3.connect(Path(data) / "control" / "db.sqlite3")) as database, database:
        database.execute(
            "insert into mfa_authenticator (type, data, user_id, created_at) "
            "select 'totp', '{}', id, '2026-01-01' from tenants_user where username = 'ada'"
        )
        database.execute("update tenants_user set has_second_factor = 1 where username = 'ada'")
    shown = magnetar("users", "remove-second-factors", "ada", "--data-dir", data)
    assert (shown.returncode, "removed the second factors of ada" in shown.stdout) == (0, True), shown.stderr
    with closing(sqlite3.connect(Path(data) / "control" / "db.sqlite3")) as database:
        assert database.execute("select count(*) from mfa_authenticator").fetchall() == [(0,)]
        rows = database.execute("select has_second_factor from tenants_user where username = 'ada'").fetchall()
        records = database.execute("select resource from tenants_auditrecord where action = 'user.second_factor.remove'").fetchall()
    assert (rows, records) == ([(0,)], [("ada",)])


def test_the_superuser_token_is_replaced_and_the_former_one_revoked(data: str) -> None:
    path = Path(data) / "secrets" / "superuser.token"
    former = path.read_text()
    shown = magnetar("keys", "rotate-superuser", "--expires-days", "30", "--data-dir", data)
    assert shown.returncode == 0, shown.stderr
    assert path.read_text() != former and stat.S_IMODE(path.stat().st_mode) == 0o600
    with closing(sqlite3.connect(Path(data) / "control" / "db.sqlite3")) as database:
        rows = database.execute("select id = 'superuser-1', revoked_at is null, expires_at is null from tenants_key").fetchall()
    assert sorted(rows) == [(0, 1, 0), (1, 0, 1)]


def test_a_new_key_signs_and_the_former_one_can_be_retired(data: str) -> None:
    former = magnetar("keys", "list", "--data-dir", data).stdout.split()[0]
    assert "signs new tokens" in magnetar("keys", "rotate-signing", "--data-dir", data).stdout
    assert f"{former}\tverifies\n" in magnetar("keys", "list", "--data-dir", data).stdout
    assert magnetar("keys", "retire-signing", former, "--data-dir", data).returncode == 0
    assert former not in magnetar("keys", "list", "--data-dir", data).stdout


def test_nothing_that_is_written_can_be_read_by_others(data: str) -> None:
    open_to_others = [path for path in Path(data).rglob("*") if stat.S_IMODE(path.lstat().st_mode) & 0o077]
    assert open_to_others == []
