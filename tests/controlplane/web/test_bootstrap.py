"""The database before the first page."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from django.conf import settings as django_settings

from controlplane import bootstrap, migration_names
from controlplane.databases import database
from messaging.errors import AuthenticationFailed
from messaging.identity import create_secrets
from messaging.settings import ConfigError, Settings
from tenants.first_rows import create_first_rows
from tenants.models import FeedHead, Key, Namespace, Tenant, User
from tests.support.databases import other_database


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(data_dir=str(tmp_path))
    create_secrets(settings)
    return settings


def test_a_first_start_makes_tables_and_first_rows_once(settings: Settings) -> None:
    assert bootstrap.needed(settings)
    bootstrap.prepare(settings)
    assert not bootstrap.needed(settings)
    with sqlite3.connect(settings.data_path / "control" / "db.sqlite3") as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM tenants_namespace")]
        beat = connection.execute("SELECT count(*) FROM django_celery_beat_periodictask").fetchone()
    connection.close()
    assert names == ["public/default"]
    assert beat is not None
    stamp = (settings.data_path / "control" / "prepared").stat()
    bootstrap.prepare(settings)
    assert (settings.data_path / "control" / "prepared").stat() == stamp


def test_a_normal_start_loads_no_django_for_it(settings: Settings) -> None:
    (settings.data_path / "control").mkdir()
    (settings.data_path / "control" / "db.sqlite3").touch()
    (settings.data_path / "control" / "prepared").write_text(bootstrap.prepared_stamp(settings))
    code = (
        "import sys; from controlplane import bootstrap; from messaging.settings import Settings;"
        f"bootstrap.prepare(Settings(data_dir={str(settings.data_path)!r}));"
        "sys.exit('django' in sys.modules or 'celery' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_new_migration_or_another_database_is_noticed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    stamp = bootstrap.prepared_stamp(settings)
    assert stamp == bootstrap.prepared_stamp(settings)
    assert stamp != bootstrap.prepared_stamp(Settings(data_dir=settings.data_dir, database_url="postgresql://h/n"))
    monkeypatch.setattr(migration_names, "MIGRATED", migration_names.MIGRATED[:-3])
    assert stamp != bootstrap.prepared_stamp(settings)


def test_a_database_that_cannot_be_prepared_is_an_error(settings: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    (settings.data_path / "control").mkdir()
    (settings.data_path / "control" / "db.sqlite3").write_bytes(b"this is no database" * 100)
    with pytest.raises(ConfigError, match="could not be prepared"):
        bootstrap.prepare(settings)
    assert "not a database" in capfd.readouterr().err


def test_the_first_rows(db: None) -> None:
    settings: Settings = django_settings.MAGNETAR
    create_first_rows(settings)
    assert list(Namespace.unscoped.values_list("name", flat=True)) == ["public/default"]
    assert Key.unscoped.get().id == "superuser-1"
    admin = User.objects.get()
    assert (admin.username, admin.is_superuser) == ("admin", True)
    password = (settings.data_path / "secrets" / "console-password").read_text().strip()
    assert admin.check_password(password)
    assert admin.password.startswith("argon2")
    assert password not in admin.password
    version = FeedHead.objects.get().version
    assert version == 3


def test_deleted_first_rows_stay_deleted(db: None) -> None:
    create_first_rows(django_settings.MAGNETAR)
    Namespace.unscoped.all().delete()
    Tenant.unscoped.all().delete()
    User.objects.all().delete()
    create_first_rows(django_settings.MAGNETAR)
    assert not Tenant.unscoped.exists()
    assert not User.objects.exists()


def test_the_superuser_token_can_be_revoked(db: None) -> None:
    from django.utils import timezone

    from messaging.identity import read_secret
    from tenants.http.authentication import principal_of_token

    create_first_rows(django_settings.MAGNETAR)
    token = read_secret(django_settings.MAGNETAR, "superuser.token")
    assert principal_of_token(token).role == "admin"
    Key.unscoped.update(revoked_at=timezone.now())
    with pytest.raises(AuthenticationFailed, match="revoked"):
        principal_of_token(token)


def test_the_models_have_their_migrations(db: None) -> None:
    from django.core.management import call_command

    call_command("makemigrations", "tenants", check=True, dry_run=True, verbosity=0)


@pytest.mark.parametrize("url", ["mysql://h/n", "postgresql://h", "postgresql://h:port/n", "nonsense"])
def test_database_urls_that_are_none(url: str) -> None:
    with pytest.raises(ConfigError, match="database_url"):
        database(Settings(database_url=url))


def test_a_postgresql_url() -> None:
    configuration = database(Settings(database_url="postgresql://me:p%40ss@db.example:5433/magnetar?sslmode=require"))
    assert (
        configuration["USER"],
        configuration["PASSWORD"],
        configuration["HOST"],
        configuration["PORT"],
        configuration["NAME"],
    ) == (
        "me",
        "p@ss",
        "db.example",
        "5433",
        "magnetar",
    )
    assert configuration["OPTIONS"]["sslmode"] == "require"
    assert configuration["OPTIONS"]["pool"]["max_size"] >= 4


def test_machines_that_start_at_once_prepare_one_database(tmp_path: Path, postgresql: str) -> None:
    """They share no file that could be locked: one of them failed, with a table that was there already."""
    code = (
        "import sys; from controlplane import bootstrap; from messaging.settings import Settings;"
        "bootstrap.prepare(Settings(data_dir=sys.argv[1], database_url=sys.argv[2]))"
    )
    with other_database(postgresql) as url:
        machines = [tmp_path / name for name in ("one", "two")]
        for path in machines:
            path.mkdir()
            create_secrets(Settings(data_dir=str(path)))
        starting = [subprocess.Popen([sys.executable, "-c", code, str(path), url], stderr=subprocess.PIPE) for path in machines]
        errors = [process.communicate(timeout=240)[1].decode() for process in starting]
        assert [process.returncode for process in starting] == [0, 0], errors
        with psycopg.connect(url) as connection:
            assert connection.execute("select count(*) from tenants_user").fetchone() == (1,)


def test_a_server_that_does_not_answer_is_tried_again(settings: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 says that a person has to act: systemd would not start the process again."""
    away = Settings(data_dir=settings.data_dir, database_url="postgresql://magnetar@127.0.0.1:1/magnetar")
    with pytest.raises(SystemExit) as ended:
        bootstrap.prepare(away)
    assert ended.value.code == 1 and "could not be prepared" in capfd.readouterr().err


def test_a_database_that_a_newer_release_has_changed_is_refused_unless_it_is_accepted(settings: Settings) -> None:
    bootstrap.prepare(settings)
    path = settings.data_path / "control" / "db.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "insert into django_migrations (app, name, applied) values ('tenants', '9999_of_tomorrow', '2026-11-27')"
        )
        connection.execute("insert into django_migrations (app, name, applied) values ('somebody_else', '0001', '2026-11-27')")
    connection.close()
    (settings.data_path / "control" / "prepared").write_text("of the newer release")

    def prepare(**accepted: bool) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "MAGNETAR_DATA_DIR": settings.data_dir}
        environment |= {f"MAGNETAR_{name.upper()}": str(value).lower() for name, value in accepted.items()}
        command = [sys.executable, "-P", "-m", "controlplane.bootstrap"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    refused = prepare()
    assert refused.returncode != 0
    assert "does not know tenants.9999_of_tomorrow. Use that release" in refused.stderr + refused.stdout
    assert "Traceback" not in refused.stderr
    assert bootstrap.needed(settings)
    accepted = prepare(accept_newer_database=True)
    assert accepted.returncode == 0, accepted.stderr
    assert not bootstrap.needed(settings)
