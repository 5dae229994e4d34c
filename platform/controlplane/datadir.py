"""Prepares the data directory before a process starts: it exists, is writable, and contains the first-start secrets."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from messaging.atomic_files import make_directory
from messaging.settings import ConfigError, Settings

_SECRETS = (
    "token-signing.pem",
    "token-verify.pem",
    "audit-signing.pem",
    "audit-verify.pem",
    "django-secret-key",
    "superuser.token",
    "platform-id",
    "console-password",
    *(f"identity/{name}.{kind}" for name in ("web", "worker", "broker") for kind in ("key", "pub")),
)

RESTORING = "restore-unfinished"


def prepare(settings: Settings) -> None:
    """Prepares everything that a process needs. Raises `ConfigError`."""
    make_writable(settings)
    make_secrets(settings)


def make_writable(settings: Settings) -> None:
    """Creates the directory if needed and checks that it is writable. Raises `ConfigError`."""
    path = settings.data_path
    if (path / RESTORING).exists():
        raise ConfigError(f"a restore into {path} did not end, so it has part of a backup: empty it and restore again")
    try:
        make_directory(path, mode=0o700)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        why = "part of its path is not a directory" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
        raise ConfigError(
            f"the data directory {path} is not writable ({why}): choose another with --data-dir or MAGNETAR_DATA_DIR, "
            "or change its permissions"
        ) from None


def make_secrets(settings: Settings) -> None:
    """Creates missing first-start secrets and the certificate.

    If nothing is missing, this costs only a few file lookups; the cryptography library is not loaded.
    """
    if not all((settings.data_path / "secrets" / name).exists() for name in _SECRETS):
        from messaging.identity import create_secrets

        create_secrets(settings)
    if settings.tls == "self-signed":
        from messaging.tls import ensure_certificate

        ensure_certificate(settings)


def loose_permissions(path: Path) -> list[str]:
    """Files and directories that other users can access, as paths relative to the data directory. If the data directory itself is
    private, only secrets/ is checked."""
    begin = path / "secrets" if _private(path) else path
    return sorted(str(entry.relative_to(path)) for entry in [begin, *begin.rglob("*")] if not _private(entry))


def _private(entry: Path) -> bool:
    try:
        status = entry.lstat()
    except OSError:
        return True
    public = entry.suffix == ".pub" or entry.name in ("token-verify.pem", "audit-verify.pem") or entry.is_symlink()
    return (public or not status.st_mode & 0o077) and status.st_uid in (os.getuid(), 0)
