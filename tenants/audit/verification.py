"""Reads a chain of audit records and names what is wrong with it. Pure: handed the records in their order, it asks for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tenants.audit.links import NOTHING_BEFORE, Linked, hash_of

PROBLEMS_MAX = 100  # of one verification that are named; all are counted
PLACES_MAX = 10  # broken links for which the record that they name is looked for


@dataclass
class Report:
    """`first` and `last`: ids of the records that were read, 0 for none. `pruned`: the last id that retention deleted. `masked`:
    records of an export that has not all they say, so that their place alone is verified."""

    records: int = 0
    first: int = 0
    last: int = 0
    pruned: int = 0
    masked: int = 0
    problem_count: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def intact(self) -> bool:
        return self.problem_count == 0

    def problem(self, text: str) -> None:
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(text)


@dataclass(frozen=True)
class End:
    """Where the chain begins or ends: the id and the hash of a record."""

    sequence: int = 0
    hash: str = NOTHING_BEFORE


def verify_log(
    records: Iterable[Linked],
    begin: End,
    end: End,
    known: Mapping[int, str],
    place_of: Callable[[str], int | None] = lambda _: None,
) -> Report:
    """A whole log. `begin`: what a checkpoint stands for. `known`: id -> hash, as signed heads say. `place_of`: the id of the
    record with a hash. Memory grows with the tenants, not with the records."""
    report = Report(pruned=begin.sequence)
    expected, before = begin.sequence + 1, begin.hash
    last_of_tenant: dict[str, str] = {}
    for record in records:
        report.first = report.first or record.id
        report.records += 1
        if record.id > expected:
            report.problem(_removed(expected, record.id - 1))
        elif record.id < expected:
            report.problem(f"record {record.id} was inserted: its place is before what is left of the log")
        if record.hash != hash_of(record):
            report.problem(f"record {record.id} was changed: its hash does not fit what it says")
        elif record.id == expected and record.previous_hash != before:
            follows = place_of(record.previous_hash) if report.problem_count < PLACES_MAX else None
            report.problem(_misplaced(record, follows))
        last = last_of_tenant.get(record.tenant_uid)
        if last is not None and record.tenant_previous_hash != last:
            report.problem(f"record {record.id} does not follow the record before it in the log of its tenant")
        if record.id in known and known[record.id] != record.hash:
            report.problem(f"record {record.id} is not the one that a signed head speaks of: the log was rewritten")
        expected, before = record.id + 1, record.hash
        last_of_tenant[record.tenant_uid] = record.hash
        report.last = record.id
    _verify_end(report, expected - 1, before, end, max(known, default=0))
    return report


def verify_part(records: Iterable[Linked]) -> Report:
    """What a tenant may read of the log: the oldest record first, all of one tenant. What came before the first is not known."""
    report = Report()
    before = ""
    for record in records:
        report.first = report.first or record.id
        report.records += 1
        report.masked += is_masked(record)
        if record.id <= report.last:
            report.problem(f"record {record.id} comes after record {report.last}: the order was changed")
        if not is_masked(record) and record.hash != hash_of(record):
            report.problem(f"record {record.id} was changed: its hash does not fit what it says")
        elif before and record.tenant_previous_hash != before:
            report.problem(f"record {record.id} does not follow record {report.last}: records between them are missing")
        before, report.last = record.hash, record.id
    return report


def is_masked(record: Linked) -> bool:
    """Whether a line of an export says that something is hidden in it."""
    return bool(getattr(record, "masked", False))


def _verify_end(report: Report, last: int, last_hash: str, end: End, newest_known: int) -> None:
    if last < end.sequence:
        report.problem(_removed(last + 1, end.sequence))
    elif last > end.sequence:
        report.problem(beyond(end.sequence, last))
    elif last_hash != end.hash:
        report.problem(f"the end of the chain has another hash than record {last}")
    if newest_known > max(last, end.sequence):
        report.problem(f"a signed head speaks of record {newest_known}, which does not exist: the log was cut off or put back")


def beyond(end: int, newest: int) -> str:
    return f"records {end + 1} to {newest} are beyond the end of the chain: they were inserted, or its end was put back"


def _removed(first: int, last: int) -> str:
    return f"record {first} is missing" if first == last else f"records {first} to {last} are missing"


def _misplaced(record: Linked, follows: int | None) -> str:
    if follows is not None and follows != record.id - 1:
        return f"record {record.id} is in the wrong place: it was written after record {follows}"
    return f"record {record.id} does not follow record {record.id - 1}: one of them was inserted or replaced"
