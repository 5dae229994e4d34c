"""`DatabaseWrapper` as Django finds it by the name of its package (`ENGINE`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.backends.sqlite3 import base

from messaging.storage.disk_reserve import NO_RESERVE, DiskReserve, of_database

_reserves: dict[str, DiskReserve] = {}


def reserve_for(database: str) -> DiskReserve:
    """One for all connections of this process to the file."""
    if database.startswith((":memory:", "file:")):
        return NO_RESERVE
    reserve = _reserves.get(database)
    if reserve is None:
        reserve = _reserves.setdefault(database, of_database(Path(database), settings.MAGNETAR))
    return reserve


class DatabaseWrapper(base.DatabaseWrapper):
    """Looks before each statement whether the disk is full, and gives a slice of the reserve back if so: a transaction that has
    failed for want of space cannot be saved afterwards."""

    def create_cursor(self, name: str | None = None) -> Any:
        reserve_for(str(self.settings_dict["NAME"])).make_room()
        return super().create_cursor(name)
