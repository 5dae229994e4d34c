"""Going back to an earlier release on a database that a newer one has changed: docs/upgrading.md has a row for each migration, and
none brings a column that the earlier release would have to fill."""

from __future__ import annotations

import re
from pathlib import Path

from django.db.migrations import RemoveField, RenameField, RunPython, RunSQL
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.operations.models import DeleteModel, RenameModel
from django.db.models.fields import NOT_PROVIDED

from controlplane.migration_names import known_migrations

# What the earliest release that one may go back to has. No release has a tag yet: where the upgrade campaign starts.
EARLIEST = {"tenants": "0024_recycle_bin", "workers": "0023_alert_patterns", "admin_ui": ""}
LOSES = (RemoveField, RenameField, DeleteModel, RenameModel)
WRITES = (RunPython, RunSQL)
ROW = re.compile(r"^\| `(\w+)\.(\w+)` \| .+ \| (yes|with care|no)\b", re.MULTILINE)


def _rows(repository: Path) -> dict[str, str]:
    page = (repository / "docs" / "upgrading.md").read_text()
    return {f"{app}.{name}": answer for app, name, answer in ROW.findall(page)}


def _later() -> set[str]:
    """Migrations of our applications since the earliest release, as app.name."""
    ours = (name.split(".") for name in known_migrations())
    return {f"{app}.{name}" for app, name in ours if app in EARLIEST and name > EARLIEST[app]}


def _operations(migration: str) -> list[Operation]:
    app, _, name = migration.partition(".")
    return list(MigrationLoader(None).get_migration(app, name).operations)


def test_each_migration_has_a_row_and_each_row_a_migration(repository: Path) -> None:
    rows, later = _rows(repository), _later()
    assert later
    assert set(rows) == later


def test_what_rewrites_or_takes_away_is_not_said_to_be_harmless(repository: Path) -> None:
    harmless = {name for name, answer in _rows(repository).items() if answer == "yes"}
    wrong = {
        f"{name}: {operation.describe()}"
        for name in harmless
        for operation in _operations(name)
        if isinstance(operation, (*LOSES, *WRITES))
    }
    assert not wrong


def test_columns_since_the_earliest_release_may_be_left_out_by_it() -> None:
    """It makes people, invitations and jobs that are without them."""
    loader = MigrationLoader(None)
    before = loader.project_state([(app, name) for app, name in EARLIEST.items() if name])
    now = loader.project_state()
    missing = set()
    for key, model in now.models.items():
        if key[0] in EARLIEST and key in before.models:
            for name, field in model.fields.items():
                required = not field.null and field.db_default is NOT_PROVIDED and not field.many_to_many
                if required and name not in before.models[key].fields:
                    missing.add(f"{key[0]}.{model.name}.{name}")
    assert not missing, "give each `db_default`, or `null`"
