"""The parts of hours, by subscription and key, into the database, before the hours that they are of count."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from spark_jobs.checksum import DETAIL_COLUMNS, checksum_text, row_digest
from spark_jobs.config import Result, details_directory
from workers.detail_models import UsageDetail
from workers.models import UsageRun
from workers.usage_pieces import Pieces, lines_of
from workers.usage_run import RunFailed

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


def write_details(pieces: Pieces, result: Result, rows: Path, tenant_of: TenantOf) -> None:
    """Those of each hour of `result`, below `rows`. Raises `RunFailed`."""
    for hour in result.hours:
        at = datetime.strptime(hour.hour, "%Y-%m-%dT%H").replace(tzinfo=UTC)
        count = digests = 0
        for path in sorted(details_directory(rows).glob(f"{hour.hour}-*.json")):
            for batch in lines_of(path, _Row):
                count += len(batch)
                digests += sum(row_digest(getattr(row, column) for column in DETAIL_COLUMNS) for row in batch)
                pieces.insert(UsageDetail, [_model(row, at, pieces.run, tenant_of) for row in batch])
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
