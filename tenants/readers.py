"""Who may read the messages of a tenant, a namespace or a topic, and who did: decisions of now, and what the audit log has."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from django.db.models import Count, Max, Min, Q
from django.utils import timezone
from msgspec import Meta

from messaging.permissions.audited import SUBSCRIPTION_CREATE
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import parse_topic
from tenants.explanations import Part, subjects, who_of_each, who_of_parts
from tenants.models import AuditRecord, Tenant, TokenIssuer
from tenants.scoping import tenant_scope
from tenants.text_files import incomplete_line, plain_cell

READS = ("message.browse", "message.read", "message.export", "subscription.peek", SUBSCRIPTION_CREATE)
DAYS_MAX = 366
READ_SHOWN_MAX = 1_000  # roles and resources; further ones are counted
COLUMNS = ("what", "role", "key_id", "may_read", "may_consume", "because", "action", "resource", "times", "first_at", "last_at")


class Reader(msgspec.Struct, kw_only=True):
    role: str
    key_id: Annotated[str, Meta(description="Of a key with a scope; empty: whoever has the role.")]
    reads: Annotated[bool, Meta(description="May read messages in the console and over REST; parts may be masked.")]
    consumes: Annotated[bool, Meta(description="May subscribe, and sees everything.")]
    because: list[str]
    issuers: Annotated[list[str], Meta(description="Issuers of other organisations whose tokens have this role.")]


class PartReader(msgspec.Struct, kw_only=True):
    role: str
    key_id: Annotated[str, Meta(description="Of a key with a scope; empty: whoever has the role.")]
    where: Annotated[str, Meta(description="The namespace, topic, or topics by pattern, for people.")]
    reads: Annotated[bool, Meta(description="May read messages there in the console and over REST; parts may be masked.")]
    consumes: Annotated[bool, Meta(description="May subscribe there, and sees everything.")]
    because: list[str]


class Reading(msgspec.Struct, kw_only=True):
    role: str
    action: Annotated[str, Meta(description="Of the audit log; subscription.create: somebody began to consume.")]
    resource: Annotated[str, Meta(description="A topic; or the tenant, of whose dead letters lists were looked through.")]
    times: int
    first_at: datetime
    last_at: datetime


class ReadersReport(msgspec.Struct, kw_only=True):
    resource: str
    at: datetime
    may: Annotated[list[Reader], Meta(description="Read or consume in all of the resource.")]
    may_in_part: Annotated[list[PartReader], Meta(description="What somebody may in a part of the resource, and not in all of it.")]
    complete: Annotated[bool, Meta(description="false: the tenant has more members, keys and grants than are looked at.")]
    since: datetime
    did: list[Reading]
    further: Annotated[int, Meta(description="Roles and resources that did, and are not shown.")]
    log_since: Annotated[datetime | None, Meta(description="The oldest record of the tenant that is kept; null: there is none.")]


def readers(tenant: str, resource: Resource, days: int) -> ReadersReport:
    """The caller has checked that this may be asked. Administrators of the platform may read everything and are not listed."""
    found: dict[tuple[str, str], Reader] = {}
    actions = (Action.MESSAGE_READ, Action.CONSUME)
    known = subjects(tenant, resource)
    answered = who_of_each(known, resource, actions)
    for action, others in zip(actions, answered, strict=True):
        for answer in others.answers:
            role, key_id = answer.principal.role, answer.principal.key_id
            reader = found.get((role, key_id))
            if reader is None:
                reader = found[role, key_id] = Reader(role=role, key_id=key_id, reads=False, consumes=False, because=[], issuers=[])
            reader.reads, reader.consumes = True, reader.consumes or action is Action.CONSUME
            reader.because += [reason.text for reason in answer.decision.reasons if reason.text not in reader.because]
    parts, all_grants = who_of_parts(known, resource, actions)
    since = timezone.now() - timedelta(days=days)
    with tenant_scope(tenant):
        for issuer in TokenIssuer.objects.all():
            for reader in found.values():
                if reader.role in {f"{name}@{tenant}" for name in issuer.roles.values()}:
                    reader.issuers.append(issuer.name)
        rows = AuditRecord.objects.filter(action__in=READS, at__gte=since).filter(_within(resource)).order_by()
        grouped = rows.values("role", "action", "resource").annotate(times=Count("id"), first_at=Min("at"), last_at=Max("at"))
        shown = [row for row in grouped.order_by("-last_at")[:READ_SHOWN_MAX] if _is_within(row["resource"], resource)]
        further = max(0, grouped.count() - READ_SHOWN_MAX)
        of_tenant = AuditRecord.objects.filter(tenant_uid=Tenant.objects.get(name=tenant).uid)  # in the order of an index
        log_since = of_tenant.order_by("id").values_list("at", flat=True).first()
    return ReadersReport(
        resource=resource.topic or resource.namespace or tenant,
        at=timezone.now(),
        may=sorted(found.values(), key=lambda reader: (reader.role, reader.key_id)),
        may_in_part=_of_parts(parts, found),
        complete=all_grants and all(others.complete for others in answered),
        since=since,
        did=[Reading(**row) for row in shown],
        further=further,
        log_since=log_since,
    )


def _of_parts(parts: Iterable[Part], whole: Mapping[tuple[str, str], Reader]) -> list[PartReader]:
    """Without what they may in all of the resource."""
    found: dict[tuple[str, str, str], PartReader] = {}
    for part in parts:
        role, key_id = part.principal.role, part.principal.key_id
        of_all, consumes = whole.get((role, key_id)), Action.CONSUME in part.actions
        if of_all is not None and (of_all.consumes or not consumes):
            continue
        place = role, key_id, part.where
        reader = found.setdefault(
            place, PartReader(role=role, key_id=key_id, where=part.where, reads=True, consumes=False, because=[])
        )
        reader.consumes = reader.consumes or consumes
        reader.because += [text for text in part.because if text not in reader.because]
    return [found[place] for place in sorted(found)]


def _within(resource: Resource) -> Q:
    """Records name topics in full, with their subscriptions behind them, and partitions one by one, or the topic that a partition
    is of. Those of the tenant are of dead letters of all its topics."""
    if resource.topic:
        topic = resource.topic
        named = Q(resource__in={topic, str(parse_topic(topic).base), resource.tenant})
        return named | Q(resource__startswith=f"{topic}/") | Q(resource__startswith=f"{topic}-partition-")
    if resource.namespace:
        domains = Q(resource__startswith=f"persistent://{resource.namespace}/")
        return domains | Q(resource__startswith=f"non-persistent://{resource.namespace}/") | Q(resource=resource.tenant)
    return Q()


def _is_within(text: str, resource: Resource) -> bool:
    """SQLite compares without regard to large and small letters."""
    if text == resource.tenant:
        return True
    if resource.topic:
        return text.startswith(resource.topic) or text == str(parse_topic(resource.topic).base)
    return not resource.namespace or f"://{resource.namespace}/" in text


def as_csv(report: ReadersReport) -> str:
    """Three tables in one: who may, who may in a part, and who did."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for reader in report.may:
        because = "; ".join([*reader.because, *(f"tokens of issuer {name}" for name in reader.issuers)])
        cells = ["may", reader.role, reader.key_id, reader.reads, reader.consumes, because, "", report.resource, "", "", ""]
        writer.writerow(plain_cell(str(cell)) for cell in cells)
    for part in report.may_in_part:
        because = "; ".join(part.because)
        cells = ["may_in_part", part.role, part.key_id, part.reads, part.consumes, because, "", part.where, "", "", ""]
        writer.writerow(plain_cell(str(cell)) for cell in cells)
    for reading in report.did:
        first, last = reading.first_at.isoformat(), reading.last_at.isoformat()
        cells = ["did", reading.role, "", "", "", "", reading.action, reading.resource, reading.times, first, last]
        writer.writerow(plain_cell(str(cell)) for cell in cells)
    for missing in _missing(report):
        out.write(incomplete_line(missing, as_csv=True))
    return out.getvalue()


def _missing(report: ReadersReport) -> Iterator[str]:
    if report.log_since is not None and report.log_since > report.since:
        yield f"the audit log has nothing before {report.log_since.isoformat()}, and {report.since.isoformat()} was asked for"
    if report.further:
        yield f"{report.further} more roles and resources did, which are not in this file"
    if not report.complete:
        yield "the tenant has more members, keys and grants than are looked at for one answer"
