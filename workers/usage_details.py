"""The parts of hours, by subscription and key, into the database: with the hours that they are of, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import msgspec

from messaging.json_types import decoder_of
from spark_jobs.checksum import DETAIL_COLUMNS, checksum_text, row_digest
from spark_jobs.config import Result, details_directory
from workers.detail_models import UsageDetail
from workers.models import UsageRun
from workers.usage_run import RunFailed

ROWS_AN_INSERT = 500
TenantOf = Callable[[str, str, datetime], str]  # of the uid in the record, the tenant's name and the hour: the uid


class _Row(msgspec.Struct):
    hour_start_ms: int
    tenant: str
    tenant_uid: str
    namespace: str
    topic: str
    subscription: str
    key: str
    others: int
    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int
    messages_redelivered: int
    backlog_entry_seconds: int
    delayed_entry_seconds: int
    api_calls: int
    connection_seconds: int


assert _Row.__struct_fields__ == DETAIL_COLUMNS


def replace_details(run: UsageRun, result: Result, rows: Path, tenant_of: TenantOf) -> None:
    """Those of each hour of `result` by those below `rows`, in the caller's transaction. Raises `RunFailed`."""
    for hour in result.hours:
        at = datetime.strptime(hour.hour, "%Y-%m-%dT%H").replace(tzinfo=UTC)
        UsageDetail.objects.filter(hour=at).delete()
        count = digests = 0
        for batch in _batches(details_directory(rows), hour.hour):
            count += len(batch)
            digests += sum(row_digest(getattr(row, column) for column in DETAIL_COLUMNS) for row in batch)
            UsageDetail.objects.bulk_create(_model(row, at, run, tenant_of) for row in batch)
        checksum = checksum_text(count, digests)
        if count != hour.detail_rows or (count and checksum != hour.detail_checksum):
            raise RunFailed(
                f"the parts of hour {hour.hour} have checksum {checksum} on disk but {hour.detail_checksum} in the job's result: "
                f"nothing was published"
            )


def _model(row: _Row, at: datetime, run: UsageRun, tenant_of: TenantOf) -> UsageDetail:
    fields = {name: getattr(row, name) for name in DETAIL_COLUMNS[1:]}
    fields["tenant_uid"] = tenant_of(row.tenant_uid, row.tenant, at)
    return UsageDetail(hour=at, run=run, **fields)


def _batches(folder: Path, hour: str) -> Iterator[list[_Row]]:
    decoder = decoder_of(_Row)
    for path in sorted(folder.glob(f"{hour}-*.json")):
        with path.open("rb") as lines:
            while batch := [decoder.decode(line) for line in islice(lines, ROWS_AN_INSERT)]:
                yield batch
