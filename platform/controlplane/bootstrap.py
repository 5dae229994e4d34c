"""Prepares the database: its tables, and the first tenant, user and key.

`needed` costs a few directory listings, and `prepare` does nothing if it is False. The work runs in a separate process
(``python -m controlplane.bootstrap``), so that the web process loads neither migrations nor the apps that only they need.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from controlplane.child_process import environment, python
from messaging.settings import ConfigError, Settings

FULL_BYTES = 1 << 20  # less than one migration transaction may need
NEEDED_BYTES = 16 << 20  # for all tables and the database's journal

# Packages with migrations, whose file names are listed without importing them.
MIGRATED = (
    "django/contrib/auth",
    "django/contrib/contenttypes",
    "django/contrib/sessions",
    "django_celery_beat",
    "tenants",
    "workers",
    "admin_ui",
)


def needed(settings: Settings) -> bool:
    """Whether the database may lack tables or first rows, judged by a stamp file in the data directory."""
    if not settings.database_url and not (settings.data_path / "control" / "db.sqlite3").exists():
        return True
    try:
        return _stamp_path(settings).read_text() != prepared_stamp(settings)
    except OSError:
        return True


def prepare(settings: Settings) -> None:
    """Runs migrations and creates first rows if needed. Idempotent and safe to run concurrently. Raises `ConfigError`."""
    if not needed(settings):
        return
    if subprocess.run(python("controlplane.bootstrap"), env={**os.environ, **environment(settings)}, check=False).returncode != 0:
        raise ConfigError("the database could not be prepared: see the lines above")


def run(settings: Settings) -> None:
    """Does the work; sets up Django in this process. Raises `ConfigError` if the disk is full."""
    try:
        _run(settings)
    except Exception as error:
        free = shutil.disk_usage(settings.data_path).free
        if free >= FULL_BYTES:
            raise
        raise ConfigError(
            f"the disk under {settings.data_path} is full ({free} bytes are free): the database could not be prepared "
            f"({error}). Free at least {NEEDED_BYTES >> 20} MiB, or choose another directory with --data-dir, and start again"
        ) from None


def _run(settings: Settings) -> None:
    from controlplane.django_setup import set_up
    from messaging.identity import create_secrets

    create_secrets(settings)
    (settings.data_path / "control").mkdir(mode=0o700, exist_ok=True)
    with _locked(settings):
        if not needed(settings):
            return
        set_up(settings)
        from django.core.management import call_command

        call_command("migrate", interactive=False, verbosity=0, skip_checks=True)
        from tenants.first_rows import create_first_rows

        create_first_rows(settings)
        _stamp_path(settings).write_text(prepared_stamp(settings))


@contextmanager
def _locked(settings: Settings) -> Iterator[None]:
    with (settings.data_path / "control" / "prepare.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _stamp_path(settings: Settings) -> Path:
    return settings.data_path / "control" / "prepared"


def prepared_stamp(settings: Settings) -> str:
    """Changes whenever a migration is added, renamed or removed, or the database changes."""
    digest = hashlib.sha256(settings.database_url.encode())
    for package in MIGRATED:
        top, _, below = package.partition("/")
        spec = find_spec(top)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            names = sorted(path.name for path in (Path(folder) / below / "migrations").glob("[0-9]*.py"))
            digest.update("\0".join([package, *names]).encode())
    return digest.hexdigest()


if __name__ == "__main__":
    from messaging import logs
    from messaging.settings import load

    try:
        found = load()
        logs.setup("prepare", found)
        run(found)
    except ConfigError as error:
        sys.stderr.write(f"magnetar prepare: {error}\n")
        sys.exit(2)
