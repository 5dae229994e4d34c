"""Rows of usage in pieces: each is a short transaction, so that nobody waits long for the database while 100,000 rows are written.

A piece is written only while the run is the one under way, as its row says when the piece begins: the same statement holds that row
until the piece is committed, so a worker that stood still and lost its lease writes nothing more once another has begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from django.db import transaction

from messaging.json_types import decoder_of
from tenants.scoping import platform_scope
from workers.detail_models import UsageDetail
from workers.environment import Stopping
from workers.models import UsageHour, UsagePeriod, UsageRun

ROWS_A_PIECE = 500
R = TypeVar("R", bound=msgspec.Struct)


class Pieces:
    """Of one run. `still_mine` raises if another worker took over, or this one ends."""

    def __init__(self, run: UsageRun, still_mine: Callable[[], None]) -> None:
        self.run = run
        self._still_mine = still_mine
        self._under_way = UsageRun.objects.filter(run_id=run.run_id, outcome=run.outcome, started_at=run.started_at)

    @contextmanager
    def piece(self) -> Iterator[None]:
        """A transaction. Raises `Stopping`, and then nothing of it is written."""
        with transaction.atomic():
            self._still_mine()
            if not self._under_way.update(swept=False):
                raise Stopping("another run took over")
            yield

    def insert(self, model: Any, rows: Sequence[Any]) -> None:
        with self.piece():
            model.objects.bulk_create(rows)


def lines_of(path: Path, row: type[R]) -> Iterator[list[R]]:
    """A file of the load directory, a piece at a time. One that is not there has none."""
    if not path.exists():
        return
    decoder = decoder_of(row)
    with path.open("rb") as lines:
        while batch := [decoder.decode(line) for line in islice(lines, ROWS_A_PIECE)]:
            yield batch


def sweep(still_mine: Callable[[], None]) -> int:
    """Deletes the rows that do not count: of versions that others took the place of, and of runs that ended in the middle. How many
    there were. One run of usage is under way at a time, and it is the caller."""
    swept = 0
    with platform_scope():
        for run_id in list(UsageRun.objects.filter(swept=False).values_list("run_id", flat=True)):
            for model in (UsageHour, UsageDetail, UsagePeriod):
                swept += _sweep_run(model, run_id, still_mine)
            still_mine()
            UsageRun.objects.filter(run_id=run_id).update(swept=True)
    return swept


def _sweep_run(model: type[UsageHour | UsageDetail | UsagePeriod], run_id: str, still_mine: Callable[[], None]) -> int:
    rows = model.versions.filter(~model.objects.counts(), run_id=run_id).order_by("pk").values_list("pk", flat=True)
    swept, last = 0, 0
    while pks := list(rows.filter(pk__gt=last)[:ROWS_A_PIECE]):
        still_mine()
        swept += model.versions.filter(pk__in=pks).delete()[0]
        last = pks[-1]
    return swept
