"""Reads the whole log from the database to verify it: in small pages, so that it may be of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from django.db import connection

from messaging.identity import audit_statements
from messaging.settings import Settings
from tenants.audit import triggers
from tenants.audit.heads import known_hashes
from tenants.audit.verification import End, Report, beyond, verify_log
from tenants.models import AuditChain, AuditCheckpoint, AuditRecord

ROWS_AT_ONCE = 1_000


def verify_signed(settings: Settings, elsewhere: Iterable[str] = (), progress: Callable[[int], None] = lambda _: None) -> Report:
    """The log against all its signed heads and those that were kept `elsewhere`, and the triggers. Raises `ConfigError`."""
    signed = Report()
    known = known_hashes(audit_statements.verify_path(settings), elsewhere, signed)
    report = verify(known, progress)
    for text in signed.problems:
        report.problem(text)
    for name in triggers.missing(connection):
        report.problem(f"the database lacks the trigger {name}: it accepts changes of the log")
    return report


def verify(known: Mapping[int, str] | None = None, progress: Callable[[int], None] = lambda _: None) -> Report:
    """`known`: id -> hash of records, from signed heads. `progress` is told the id of each page's last record. Blocks: about a
    minute for a million records. What is appended meanwhile is read up to the end that the log had at the beginning."""
    end = chain_end()
    checkpoint = AuditCheckpoint.objects.first()
    begin = End(checkpoint.sequence, checkpoint.hash) if checkpoint is not None else End()
    if checkpoint is not None:
        known = {sequence: record_hash for sequence, record_hash in (known or {}).items() if sequence > begin.sequence}
    report = verify_log(_records(begin.sequence, end.sequence, progress), begin, end, known or {}, _place_of)
    _verify_nothing_beyond(report)
    return report


def chain_end() -> End:
    row = AuditChain.objects.filter(id=1).first()
    return End(row.sequence, row.hash) if row is not None else End()


def _records(after: int, last: int, progress: Callable[[int], None]) -> Iterator[AuditRecord]:
    """Of those that should be gone already one comes first: it is enough to be named."""
    yield from AuditRecord.unscoped.filter(id__lte=after).order_by("id")[:1]
    rows = AuditRecord.unscoped.filter(id__lte=last).order_by("id")
    while page := list(rows.filter(id__gt=after)[:ROWS_AT_ONCE]):
        yield from page
        after = page[-1].id
        progress(after)


def _place_of(record_hash: str) -> int | None:
    """Reads all records, which is why it is asked for broken links alone."""
    return AuditRecord.unscoped.filter(hash=record_hash).values_list("id", flat=True).first()


def _verify_nothing_beyond(report: Report) -> None:
    newest = AuditRecord.unscoped.order_by("-id").values_list("id", flat=True).first() or 0
    end = chain_end().sequence  # read after the record, so that it is not behind it
    if newest > end:
        report.problem(beyond(end, newest))
