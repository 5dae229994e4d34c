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


def known_migrations() -> set[str]:
    """Those of this release, as app.name."""
    known: set[str] = set()
    for line in migration_names().splitlines():
        package, *names = line.split()
        known |= {f"{package.rpartition('/')[2]}.{name}" for name in names}
    return known


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
