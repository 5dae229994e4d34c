"""Findings of a run from what its job left: written in pieces, before the run is published."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from messaging.protocol.names import NAME_LENGTH_MAX
from spark_jobs.config import Result, SequenceGap, quarantine_directory
from spark_jobs.plan import HOUR_MS, floor_hour, hour_of_name
from tenants.models import Tenant
from workers.findings.models import TEXT_LENGTH_MAX, UsageFinding
from workers.findings.outages import Outage
from workers.models import UsageRun
from workers.of_tenant import TOPIC_LENGTH_MAX
from workers.usage_pieces import ROWS_A_PIECE, Pieces

FINDINGS_MAX = 10_000  # quarantined records of a run that have a row; all are in its files
RECORD_TEXT_MAX = 2_000
Kind = UsageFinding.Kind


class _Owners(NamedTuple):
    """Name -> uid and since when, uid -> name: of the tenants that there are."""

    by_name: Mapping[str, tuple[str, datetime]]
    by_uid: Mapping[str, str]

    def owner(self, tenant: str, uid: str, hour: datetime) -> str:
        """Whose what names this tenant is; "" if that cannot be said. Old records say no uid: then it is the tenant of that name,
        if it was there in that hour."""
        if uid:
            return uid if self.by_uid.get(uid) == tenant else ""
        known, since = self.by_name.get(tenant, ("", hour))
        return known if since < hour + timedelta(hours=1) else ""


def note_findings(pieces: Pieces, result: Result, output: Path, outages: Sequence[Outage]) -> int:
    """Replaces the findings of the run. `outages`: those that touch none of its hours are not the run's. How many are."""
    rows = list(Tenant.objects.values_list("name", "uid", "created_at"))
    owners = _Owners({name: (uid, since) for name, uid, since in rows}, {uid: name for name, uid, _ in rows})
    run = pieces.run
    while ids := list(run.findings.values_list("pk", flat=True)[:ROWS_A_PIECE]):  # of an attempt that ended in the middle
        with pieces.piece():
            run.findings.filter(pk__in=ids).delete()
    hours = {hour_of_name(hour.hour) for hour in result.hours}
    touching = [outage for outage in outages if hours.intersection(range(floor_hour(outage.from_ms), outage.until_ms, HOUR_MS))]
    findings = _findings(run, result, output, touching, owners)
    while batch := list(islice(findings, ROWS_A_PIECE)):
        pieces.insert(UsageFinding, batch)
    return len(touching)


def _findings(run: UsageRun, result: Result, output: Path, outages: Sequence[Outage], owners: _Owners) -> Iterator[UsageFinding]:
    for outage in outages:
        yield UsageFinding(
            run=run,
            kind=Kind.OUTAGE,
            hour=_time(floor_hour(outage.from_ms)),
            source=outage.source[:TEXT_LENGTH_MAX],
            boot_epoch=outage.boot_epoch,
            from_at=_time(outage.from_ms),
            until_at=_time(outage.until_ms),
        )
    for gap in result.holes:
        yield _of_gap(run, gap, owners)
    for record in islice(_quarantined(quarantine_directory(output, run.run_id)), FINDINGS_MAX):
        yield _of_record(run, record, owners)


def _quarantined(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        with path.open() as lines:
            yield from map(json.loads, lines)


def _of_gap(run: UsageRun, gap: SequenceGap, owners: _Owners) -> UsageFinding:
    meter, uid, topic = named_by(gap.series)
    tenant = topic.partition("://")[2].partition("/")[0] or owners.by_uid.get(uid, "")
    hour = _time(floor_hour(gap.until_ms))
    return UsageFinding(
        run=run,
        kind=Kind.HOLE,
        hour=hour,
        tenant=tenant,
        tenant_uid=owners.owner(tenant, uid, hour),
        topic=topic[:TOPIC_LENGTH_MAX],
        meter=meter[:64],
        source=gap.source[:TEXT_LENGTH_MAX],
        boot_epoch=gap.boot_epoch,
        from_at=_time(gap.from_ms) if gap.from_ms else None,
        until_at=_time(gap.until_ms),
        first_missing=gap.first_missing,
        last_missing=gap.last_missing,
        missing_value=gap.missing_value,
    )


def named_by(series: str) -> tuple[str, str, str]:
    """(meter, tenant uid, topic) of a series (`messaging.usage_schema.series_name`); "" for what it does not name."""
    meter, *names = series.partition("\n")[0].split("|", 2)
    return (meter, names[0], names[1]) if len(names) == 2 else (meter, "", "".join(names))


def _of_record(run: UsageRun, record: dict[str, Any], owners: _Owners) -> UsageFinding:
    """Quarantined records may name anything: one that does not fit together is nobody's."""
    hour = _time(hour_of_name(record["hour"]))
    tenant, namespace, topic = (str(record.get(name) or "") for name in ("tenant", "namespace", "topic"))
    agrees = bool(tenant) and (namespace.startswith(f"{tenant}/") if namespace else not topic)
    agrees &= not topic or topic.partition("://")[2].startswith(f"{namespace}/")
    meter, uid, of_series = named_by(str(record.get("series") or ""))
    agrees &= (meter, of_series) == (record.get("meter"), topic) and uid in ("", str(record.get("tenant_uid") or ""))
    fields = {
        name: record[name] if isinstance(record[name], int) else str(record[name])[:RECORD_TEXT_MAX]
        for name in record
        if name not in ("reason", "detail", "hour", "file", "row") and record[name] is not None
    }
    return UsageFinding(
        run=run,
        kind=Kind.QUARANTINED,
        hour=hour,
        tenant=tenant[:NAME_LENGTH_MAX],
        tenant_uid=owners.owner(tenant, str(record.get("tenant_uid") or ""), hour) if agrees else "",
        topic=topic[:TOPIC_LENGTH_MAX],
        meter=str(record.get("meter") or "")[:64],
        source=str(record.get("source") or "")[:TEXT_LENGTH_MAX],
        boot_epoch=record.get("boot_epoch") or 0,
        reason=f"{record['reason']}: {record['detail']}"[:TEXT_LENGTH_MAX],
        file=str(record.get("file") or "")[:TEXT_LENGTH_MAX],
        row=record.get("row"),
        record=fields,
    )


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
