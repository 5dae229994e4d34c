"""Creates what a first start needs: signing keys, service identities, passwords. Never replaces existing files, so that two
processes that start together end up with the same secrets.
"""

from __future__ import annotations

import secrets as random_secrets
import time

from messaging.atomic_files import make_directory
from messaging.identity import audit_statements
from messaging.identity.files import create, create_key_pair, secrets_path
from messaging.identity.service import SERVICE_NAMES
from messaging.identity.signing_keys import SIGNING_FILE, VERIFY_FILE
from messaging.identity.tokens import issue_token
from messaging.settings import Settings

SUPERUSER_KEY_ID = "superuser-1"  # of the first one; `magnetar keys rotate-superuser` makes others
SUPERUSER_FILE = "superuser.token"
PLATFORM_ID_FILE = "platform-id"  # made once, and the same on all machines of a platform


def create_secrets(settings: Settings) -> None:
    """Makes every secret of a data directory that is not there yet. Idempotent; safe beside another process doing the same.

    Raises `OSError` where the directory cannot be written.
    """
    folder = secrets_path(settings)
    identity = folder / "identity"
    for path in (folder, identity):
        make_directory(path, mode=0o700)
        path.chmod(0o700)
    create_key_pair(folder / SIGNING_FILE, folder / VERIFY_FILE)
    create_key_pair(folder / audit_statements.SIGNING_FILE, folder / audit_statements.VERIFY_FILE)
    for name in SERVICE_NAMES:
        create_key_pair(identity / f"{name}.key", identity / f"{name}.pub")
    create(folder / "django-secret-key", random_secrets.token_urlsafe(50))
    create(folder / PLATFORM_ID_FILE, random_secrets.token_hex(16))
    create(folder / "console-password", random_secrets.token_urlsafe(15))
    if not (folder / SUPERUSER_FILE).exists():
        create(folder / SUPERUSER_FILE, issue_token(settings, superuser_role(settings), SUPERUSER_KEY_ID, int(time.time())))


def superuser_role(settings: Settings) -> str:
    """The role of the token in secrets/superuser.token."""
    return settings.superuser_roles[0] if settings.superuser_roles else "admin"
