"""Sends audit records where streams want them.

A batch is the lines of an export (`tenants.audit.export_lines`), so that what a receiver keeps can be verified as one. It counts as
sent once it is answered by 2xx: one whose answer got lost comes again, with the same X-Magnetar-Notice. Records come in their
order, and none is passed over: while a receiver does not answer, those behind it wait.

To a topic the same lines go, each as a message. All have the same key, so that of a partitioned topic they are in one partition,
in their order; a line that comes again has the same property `audit_id`. Publishing leaves no record in the audit log, and neither
does a failure to: a stream never has something to send because of what it has sent.

Who reads what a receiver keeps is not known here. So what somebody looked for in messages is hidden in it as from whoever reads the
log and no messages; the line says `masked`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from messaging.adminrpc.messages import MessageGiven, MessagesPublish
from messaging.adminrpc.methods import MESSAGES_PUBLISH
from messaging.errors import MagnetarError
from messaging.permissions.model import Principal
from tenants.access import Actor
from tenants.audit.export_lines import json_line
from tenants.masked_records import RecordMasks
from tenants.models import AuditRecord, Tenant
from tenants.scoping import platform_scope
from workers.alerts import tasks as alerts
from workers.alerts import webhooks
from workers.audit_streams.actions import records_for
from workers.audit_streams.models import AuditStream
from workers.carriers import Turn
from workers.environment import Environment
from workers.models import TaskRun
from workers.queue import ask_for
from workers.runs import Renew
from workers.schedule import SEND_AUDIT

RECORDS_MAX = 500  # of a batch
BATCH_BYTES_MAX = 1 << 20
BATCHES_MAX = 20  # of a turn: then others have theirs
WAIT_S, WAIT_S_MAX = 15, 3600  # after a failure; twice as long after each further one
MESSAGES_MAX = 100  # of one call, as the broker takes them
PLATFORM_KEY = "platform"  # of the messages of its stream
RECORDS = "application/jsonl"
# A run that is in quarantine is begun again by an operator.
UNDER_WAY = (TaskRun.Outcome.QUEUED, TaskRun.Outcome.RUNNING, TaskRun.Outcome.RETRYING, TaskRun.Outcome.QUARANTINED)


class Outgoing(NamedTuple):
    record: AuditRecord
    line: bytes


@platform_scope()
def stream_audit(environment: Environment, task_id: str, renew: Renew) -> dict[str, Any]:
    """Has each stream served that is due and for which there is something. Safe to run twice."""
    now, asked = environment.now(), 0
    uids = dict(Tenant.objects.values_list("uid", "name"))
    for stream in AuditStream.objects.order_by("id").iterator():
        renew(asked=asked)
        if stream.tenant_uid and stream.tenant_uid not in uids:
            stream.delete()  # of a tenant that is gone
        elif stream.next_at <= now and _has_more(stream):
            ask_for(SEND_AUDIT, stream=stream.id)
            asked += 1
    return {"asked": asked}


def _has_more(stream: AuditStream) -> bool:
    """There is something to send, and nobody is about to."""
    if not records_for(stream.tenant_uid).filter(id__gt=stream.sent_id).exists():
        return False
    return not TaskRun.objects.filter(name=SEND_AUDIT, outcome__in=UNDER_WAY, arguments={"stream": stream.id}).exists()


@platform_scope()
def turn_of(stream: str) -> Turn:
    """Of the tenant, to the host of its receiver; the broker is none that could be slow for one alone."""
    uid, url = AuditStream.objects.filter(id=stream).values_list("tenant_uid", "url").first() or ("", "")
    return Turn(uid, webhooks.host_of(url) if url else "")


@platform_scope()
def send_audit(environment: Environment, task_id: str, renew: Renew, stream: str) -> dict[str, Any]:
    """Sends what there is, up to `BATCHES_MAX` batches. A receiver that fails is tried again later, by `stream_audit`."""
    sent = 0
    for _ in range(BATCHES_MAX):
        row = AuditStream.objects.filter(id=stream).first()
        batch = next_batch(row) if row is not None else []
        if row is None or not batch:
            break
        renew(sent=sent)
        try:
            (publish_batch if row.topic else post_batch)(environment, row, batch)
        except MagnetarError as error:  # not allowed, or not answered; what was published of a batch comes again
            wait_s = min(WAIT_S << min(row.failures, 20), WAIT_S_MAX)
            changes = {"failures": row.failures + 1, "next_at": environment.now() + timedelta(seconds=wait_s)}
            keep_progress(row, problem=error.message[:500], **changes)
            return {"sent": sent, "problem": error.message[:200]}
        sent += len(batch)
        last = batch[-1].record
        keep_progress(
            row,
            sent_id=last.id,
            sent_hash=last.hash,
            sent_at=environment.now(),
            gaps=row.gaps + has_gap(row, batch[0].record),
            failures=0,
            problem="",
        )
    return {"sent": sent}


def next_batch(stream: AuditStream) -> list[Outgoing]:
    """The records that follow what was sent, as many as fit."""
    batch: list[Outgoing] = []
    size, masks = 0, RecordMasks(Actor(Principal("")))
    for record in records_for(stream.tenant_uid).filter(id__gt=stream.sent_id).order_by("id")[:RECORDS_MAX]:
        shown = masks.shown(record)
        outgoing = Outgoing(record, json_line(shown.row, masked=shown.masked))
        size += len(outgoing.line)
        if batch and size > BATCH_BYTES_MAX:
            break
        batch.append(outgoing)
    return batch


def has_gap(stream: AuditStream, record: AuditRecord) -> bool:
    """Whether there were records between what was sent and `record`, which retention has deleted."""
    return stream.sent_hash != (record.tenant_previous_hash if stream.tenant_uid else record.previous_hash)


def post_batch(environment: Environment, stream: AuditStream, batch: list[Outgoing]) -> None:
    allowed = webhooks.networks(environment.settings.webhook_allowed_networks)
    body = b"".join(outgoing.line for outgoing in batch)
    notice_id = f"audit-{batch[0].record.id}-{batch[-1].record.id}"
    at_s = int(environment.now().timestamp())
    webhooks.post(stream.url, stream.secret, notice_id, body, at_s, allowed, alerts.resolve(), content_type=RECORDS)


def publish_batch(environment: Environment, stream: AuditStream, batch: list[Outgoing]) -> None:
    """In their order, at most `MESSAGES_MAX` with each call. Raises what the broker answers."""
    given = [
        MessageGiven(
            payload=outgoing.line,
            key=stream.tenant_uid or PLATFORM_KEY,
            properties={"audit_id": str(outgoing.record.id), "content_type": RECORDS},
            event_time_ms=int(outgoing.record.at.timestamp() * 1000),
        )
        for outgoing in batch
    ]
    for messages in batched(given, MESSAGES_MAX):
        environment.rpc.call(MESSAGES_PUBLISH, MessagesPublish(topic=stream.topic, messages=messages))


def batched(given: list[MessageGiven], count: int) -> Iterator[list[MessageGiven]]:
    for begin in range(0, len(given), count):
        yield given[begin : begin + count]


def keep_progress(stream: AuditStream, **changes: Any) -> None:
    """Unless it was set anew meanwhile, to another receiver or position."""
    same = AuditStream.objects.filter(id=stream.id, url=stream.url, topic=stream.topic, sent_id=stream.sent_id)
    same.update(**changes)
