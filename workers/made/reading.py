"""What somebody made, or changed last, and is still there: out of their own records in the audit log, newest first.

A page looks at `RECORDS_MAX` of the records that make or change something, so it may be short, or empty, and have a next one; an
index has those of one role and action in order, however long the log is. Of each thing it is told once: at the record by which they
made it, or else at that of its last change. What was written by others meanwhile is looked for among `BESIDE_MAX` records of the
same resource.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest
from typing import NamedTuple

from django.db.models import QuerySet

from messaging.errors import InvalidValue
from messaging.permissions.model import Resource
from tenants.access import Actor
from tenants.audit.reading import records_of
from tenants.models import AuditCheckpoint, AuditRecord
from tenants.scoping import tenant_scope
from workers.made.kinds import KIND_OF, KINDS, Kind, Thing

RECORDS_MAX = 1_000  # of the role, that one page looks at
RECORDS_AT_ONCE = 100
BESIDE_MAX = 500  # of a resource, that are looked at before and after a record
OLD_MAX = 100  # things of which nobody knows any more who made them


@dataclass(frozen=True)
class Made:
    """`made`: they made it; else they changed it last, and somebody else made it, as far as is known. `record`: which says so."""

    kind: str
    thing: Thing
    made: bool
    record: AuditRecord


class MadePage(NamedTuple):
    """`following`: the `after` of the next page, None for the last one."""

    items: list[Made]
    following: str | None


@dataclass(frozen=True)
class BeforeTheLog:
    """What is older than the log: `since`, from when on it has records; None: nothing of it was deleted. `made`: of which it is
    known that the role made it, `OLD_MAX` of a kind at most; `unknown`: of which it is not known, `OLD_MAX` at most. Whether
    there is `more` of either."""

    since: datetime | None
    made: list[tuple[str, Thing]]
    unknown: list[tuple[str, Thing]]
    more: bool


def read_made(actor: Actor, tenant: str, role: str, *, limit: int, after: str = "") -> MadePage:
    """Of a role such as ``user:ada`` or ``app@acme``, without what the actor may not be told. Asks the broker for topics and
    subscriptions; reads the database. Raises `InvalidValue` for an `after` that is none."""
    if after and not (after.isascii() and after.isdecimal() and len(after) < 19):
        raise InvalidValue("`after` is invalid: use the value of `next` from the previous page")
    told = {kind.name for kind in KINDS if actor.may(kind.needs, Resource(tenant))}
    with tenant_scope(tenant):
        rows = records_of(tenant)
        items: list[Made] = []
        looked_at = 0
        while looked_at < RECORDS_MAX:
            records = _newest(rows.filter(role=role), after, told)
            for made in _there(rows, role, records):
                items.append(made)
                if len(items) == limit:
                    return MadePage(items, str(made.record.id))
            looked_at += len(records)
            if len(records) < RECORDS_AT_ONCE:
                return MadePage(items, None)
            after = str(records[-1].id)
    return MadePage(items, after)


def before_the_log(actor: Actor, tenant: str, role: str) -> BeforeTheLog:
    """What was made before the oldest record that retention left. Reads the database."""
    checkpoint = AuditCheckpoint.objects.first()
    if checkpoint is None:
        return BeforeTheLog(None, [], [], False)
    made: list[tuple[str, Thing]] = []
    unknown: list[tuple[str, Thing]] = []
    more = False
    with tenant_scope(tenant):
        for kind in KINDS:
            if kind.before is None or not actor.may(kind.needs, Resource(tenant)):
                continue
            found = list(kind.before(checkpoint.at, role, OLD_MAX + 1))
            more |= len(found) > OLD_MAX
            for thing in found[:OLD_MAX]:
                (made if thing.made_by else unknown).append((kind.name, thing))
    return BeforeTheLog(checkpoint.at, made, unknown[:OLD_MAX], more or len(unknown) > OLD_MAX)


def _newest(rows: QuerySet[AuditRecord], after: str, told: set[str]) -> list[AuditRecord]:
    """Records that make or change something: of each action the newest, of which the newest are theirs."""
    if after:
        rows = rows.filter(id__lt=int(after))
    actions = [action for action, kind in KIND_OF.items() if kind.name in told]
    ids: list[int] = []
    for action in actions:
        ids += rows.filter(action=action).order_by("-id").values_list("id", flat=True)[:RECORDS_AT_ONCE]
    return list(AuditRecord.objects.filter(id__in=nlargest(RECORDS_AT_ONCE, ids)).order_by("-id"))


def _there(rows: QuerySet[AuditRecord], role: str, records: list[AuditRecord]) -> Iterator[Made]:
    """Those of the records that are about something that is still there, and of which no other is to tell."""
    keys: dict[str, list[str]] = {}
    for record in records:
        kind = KIND_OF[record.action]
        if (key := kind.key(record)) is not None and key not in keys.setdefault(kind.name, []):
            keys[kind.name].append(key)
    present = {kind.name: kind.present(keys[kind.name]) for kind in KINDS if kind.name in keys}
    decided: set[tuple[str, str, bool]] = set()
    for record in records:
        kind = KIND_OF[record.action]
        key, made = kind.key(record), kind.is_made_by(record)
        thing = None if key is None else _lived_at(present[kind.name].get(key, []), record.at)
        if key is None or thing is None:
            continue
        if thing.created_at is not None and made:
            yield Made(kind.name, thing, True, record)
        elif (kind.name, key, made) not in decided:  # what follows is older
            decided.add((kind.name, key, made))
            newer = _beside(rows.filter(id__gt=record.id).order_by("id"), record, kind, key)
            if made:
                stands = not any(map(kind.is_made_by, newer))
            else:
                stands = next(newer, None) is None and not _made_it(rows, role, record, kind, key, thing)
            if stands:
                yield Made(kind.name, thing, made, record)


def _lived_at(things: list[Thing], at: datetime) -> Thing | None:
    """The youngest of those that were there then: a later one of the same name is another. A row is written before the record that
    it was made, by the same clock."""
    lived = [thing for thing in things if thing.created_at is None or thing.created_at <= at]
    return max(lived, key=lambda thing: thing.created_at.timestamp() if thing.created_at else 0, default=None)


def _made_it(rows: QuerySet[AuditRecord], role: str, record: AuditRecord, kind: Kind, key: str, thing: Thing) -> bool:
    """Whether they made what they changed: then that is told where they made it."""
    since = datetime.min.replace(tzinfo=record.at.tzinfo) if thing.created_at is None else thing.created_at
    older = _beside(rows.filter(id__lt=record.id).order_by("-id"), record, kind, key)
    made = next((each for each in older if kind.is_made_by(each)), None)
    return made is not None and made.role == role and made.at >= since


def _beside(rows: QuerySet[AuditRecord], record: AuditRecord, kind: Kind, key: str) -> Iterator[AuditRecord]:
    """Records of the same thing among those of its resource, in the order of `rows`."""
    found = rows.filter(resource=record.resource).values_list("id", "action")[:BESIDE_MAX]
    ids = [number for number, action in found if action in kind.actions]
    by_id = AuditRecord.objects.in_bulk(ids)
    return (by_id[number] for number in ids if number in by_id and kind.key(by_id[number]) == key)
