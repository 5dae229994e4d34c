"""The names of all migrations, found without importing one: what a database was prepared for is compared with them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

# Packages with migrations, whose file names are listed without importing them.
MIGRATED = (
    "django/contrib/auth",
    "django/contrib/contenttypes",
    "django/contrib/sessions",
    "allauth/account",
    "allauth/mfa",
    "allauth/socialaccount",
    "allauth/usersessions",
    "django_celery_beat",
    "tenants",
    "workers",
    "admin_ui",
)


def migration_names() -> str:
    """Of all packages, by the names of their files."""
    lines = []
    for package in MIGRATED:
        top, _, below = package.partition("/")
        spec = find_spec(top)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            names = sorted(path.stem for path in (Path(folder) / below / "migrations").glob("[0-9]*.py"))
            lines.append(" ".join([package, *names]))
    return "\n".join(lines)
