"""The audit log is streamed to a webhook: in order, whole, at least once, and what was lost is said."""

from __future__ import annotations

import base64
import dataclasses
import io
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from messaging.adminrpc.messages import MessagesList
from messaging.adminrpc.methods import MESSAGES_LIST, MESSAGES_PUBLISH
from messaging.errors import QuotaExceeded
from tenants.audit.chain import append
from tenants.audit.export_lines import json_line, read_lines
from tenants.audit.verification import verify_part
from tenants.models import AuditRecord, Tenant
from tenants.scoping import platform_scope
from tests.support.brokers.worker_broker import Clock, WorkerBroker
from tests.support.webhook_receiver import WebhookReceiver
from workers.alerts import webhooks
from workers.audit_streams import task
from workers.audit_streams.models import AuditStream
from workers.audit_streams.task import send_audit, stream_audit, turn_of
from workers.carriers import Turn
from workers.environment import Environment
from workers.models import TaskRun
from workers.runs import run_recorded
from workers.schedule import SEND_AUDIT, STREAM_AUDIT

pytestmark = pytest.mark.django_db


@pytest.fixture
def receiving(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """An environment in which webhooks may be on this machine."""
    monkeypatch.setattr(webhooks, "resolved", lambda host, port: ["127.0.0.1"])
    allowing = msgspec.structs.replace(environment.settings, webhook_allowed_networks="127.0.0.0/8")
    return dataclasses.replace(environment, settings=allowing)


@pytest.fixture(autouse=True)
def tenants() -> None:
    for name, uid in (("acme", "u1"), ("other", "u2")):
        Tenant.unscoped.create(name=name, uid=uid, admin_roles=[], allowed_clusters=[])


def write(uid: str, *resources: str) -> None:
    append([AuditRecord(role="user:olga", action="a", resource=resource, tenant_uid=uid) for resource in resources])


def stream(hook: WebhookReceiver, clock: Clock, uid: str = "u1") -> AuditStream:
    url = f"http://hook.example:{hook.port}/in"
    return AuditStream.unscoped.create(
        tenant="acme" if uid else "", tenant_uid=uid, url=url, secret="s", created_at=clock(), next_at=clock()
    )


def look(environment: Environment) -> list[dict[str, Any]]:
    """What came of each run that was asked for."""
    number = TaskRun.objects.count()
    run_recorded(environment, STREAM_AUDIT, f"look-{number}", stream_audit)
    runs = list(TaskRun.objects.filter(name=SEND_AUDIT, outcome=TaskRun.Outcome.QUEUED))
    return [run_recorded(environment, SEND_AUDIT, run.task_id, send_audit, **run.arguments) for run in runs]


def lines(hook: WebhookReceiver) -> bytes:
    return b"".join(body for _, body in hook.requests)


def resources(hook: WebhookReceiver) -> list[str]:
    return [record.resource for record in read_lines(io.BytesIO(lines(hook)))]


def test_a_tenant_gets_its_own_records_as_a_chain_that_it_can_verify(
    receiving: Environment, clock: Clock, hook: WebhookReceiver
) -> None:
    stream(hook, clock)
    write("u1", "1")
    write("u2", "of another")
    write("u1", "2", "3")
    assert [outcome["sent"] for outcome in look(receiving)] == [3]
    assert resources(hook) == ["1", "2", "3"]
    assert verify_part(read_lines(io.BytesIO(lines(hook)))).intact
    ((headers, body),) = hook.requests
    at_s, _, _ = headers["X-Magnetar-Signature"].removeprefix("t=").partition(",")
    assert headers["X-Magnetar-Signature"] == webhooks.signature("s", int(at_s), body)
    assert headers["Content-Type"] == "application/jsonl"
    assert look(receiving) == [], "there is nothing more"
    write("u1", "4")
    look(receiving)
    assert resources(hook) == ["1", "2", "3", "4"]
    assert AuditStream.unscoped.get().gaps == 0


def test_what_somebody_looked_for_is_hidden_in_a_stream_as_from_who_reads_no_messages(
    receiving: Environment, clock: Clock, hook: WebhookReceiver
) -> None:
    of_topic = {"tenant": "acme", "tenant_uid": "u1", "resource": "persistent://acme/orders/t"}
    append([AuditRecord(role="user:olga", action="delayed.cancel", after={"key": "ada@x.com", "messages": 1}, **of_topic)])
    append([AuditRecord(role="user:olga", action="message.browse", after={"query": "key=ada%40x.com&limit=7"}, **of_topic)])
    row = stream(hook, clock)
    look(receiving)
    sent = lines(hook)
    assert b"ada" not in sent and "•••" in sent.decode("unicode_escape") and b"limit=7" in sent
    report = verify_part(read_lines(io.BytesIO(sent)))
    assert (report.intact, report.masked, report.records) == (True, 2, 2)
    row.refresh_from_db()
    assert row.sent_hash == AuditRecord.unscoped.latest("id").hash, "of what the log keeps"


def test_the_platform_gets_those_of_everybody(receiving: Environment, clock: Clock, hook: WebhookReceiver) -> None:
    stream(hook, clock, uid="")
    write("u1", "1")
    write("u2", "2")
    write("", "3")
    look(receiving)
    assert resources(hook) == ["1", "2", "3"]


def test_what_is_not_taken_comes_again_later_and_in_order(receiving: Environment, clock: Clock, hook: WebhookReceiver) -> None:
    stream(hook, clock)
    write("u1", "1", "2")
    hook.statuses = [500, 503]
    (outcome,) = look(receiving)
    assert (outcome["sent"], outcome["outcome"]) == (0, "succeeded") and "answered 500" in outcome["problem"]
    assert look(receiving) == [], "not before its time"
    clock.advance(task.WAIT_S)
    look(receiving)
    clock.advance(task.WAIT_S)
    assert look(receiving) == [], "twice as long after the second failure"
    write("u1", "3")
    clock.advance(task.WAIT_S)
    look(receiving)
    assert len(hook.requests) == 3
    assert [record.resource for record in read_lines(io.BytesIO(hook.requests[-1][1]))] == ["1", "2", "3"]
    row = AuditStream.unscoped.get()
    assert (row.failures, row.problem, row.sent_at) == (0, "", clock())


def test_a_worker_that_dies_after_the_answer_sends_the_batch_again(
    receiving: Environment, clock: Clock, hook: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream(hook, clock)
    write("u1", "1")

    def dies(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:  # an exception where a kill would be
        patched.setattr(task, "keep_progress", dies)
        with pytest.raises(ZeroDivisionError):
            look(receiving)
    assert look(receiving) == [], "it is repeated by the queue"
    row = AuditStream.unscoped.get()
    assert run_recorded(receiving, SEND_AUDIT, "again", send_audit, stream=row.id)["sent"] == 1
    assert resources(hook) == ["1", "1"]
    assert len({headers["X-Magnetar-Notice"] for headers, _ in hook.requests}) == 1, "so that the receiver can tell"


def test_batches_are_bounded_and_others_have_their_turn(
    receiving: Environment, clock: Clock, hook: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "RECORDS_MAX", 4)
    monkeypatch.setattr(task, "BATCHES_MAX", 2)
    row = stream(hook, clock)
    write("u1", *"12345678", "x" * 1_000, "y" * 1_000, "z")
    bytes_max = 3 * len(json_line(AuditRecord.unscoped.get(resource="1"))) + 1
    monkeypatch.setattr(task, "BATCH_BYTES_MAX", bytes_max)
    assert [outcome["sent"] for outcome in look(receiving)] == [6], "two batches of three"
    while look(receiving):
        pass
    assert resources(hook) == [*"12345678", "x" * 1_000, "y" * 1_000, "z"]
    assert all(len(body) <= bytes_max or body.count(b"\n") == 1 for _, body in hook.requests)
    assert turn_of(row.id) == Turn("u1", "hook.example")


def test_records_that_were_deleted_before_they_were_sent_are_a_gap(
    receiving: Environment, clock: Clock, hook: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = stream(hook, clock)
    write("u1", "1")
    look(receiving)
    write("u1", "2", "3")
    assert not task.has_gap(AuditStream.unscoped.get(id=row.id), AuditRecord.unscoped.get(resource="2"))
    monkeypatch.setattr(
        task,
        "next_batch",
        lambda stream: [
            task.Outgoing(record, json_line(record)) for record in AuditRecord.unscoped.filter(resource="3", id__gt=stream.sent_id)
        ],
    )
    look(receiving)
    assert AuditStream.unscoped.get(id=row.id).gaps == 1


def test_a_stream_that_is_set_anew_while_it_sends_keeps_its_new_place(
    receiving: Environment, clock: Clock, hook: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = stream(hook, clock)
    write("u1", "1", "2")
    before = task.post_batch

    def meanwhile(*given: Any) -> None:
        before(*given)
        AuditStream.unscoped.filter(id=row.id).update(url="https://elsewhere.example/")

    monkeypatch.setattr(task, "post_batch", meanwhile)
    monkeypatch.setattr(task, "BATCHES_MAX", 1)
    look(receiving)
    assert AuditStream.unscoped.get(id=row.id).sent_id == 0


def test_an_address_inside_is_refused_and_said(environment: Environment, clock: Clock, hook: WebhookReceiver) -> None:
    row = stream(hook, clock)
    AuditStream.unscoped.update(url=f"http://127.0.0.1:{hook.port}/")
    write("u1", "1")
    look(environment)
    assert not hook.requests
    assert "is not public" in AuditStream.unscoped.get(id=row.id).problem


def test_the_stream_of_a_tenant_that_is_gone_goes(receiving: Environment, clock: Clock, hook: WebhookReceiver) -> None:
    stream(hook, clock)
    write("u1", "1")
    Tenant.unscoped.filter(name="acme").delete()
    assert look(receiving) == [] and not AuditStream.unscoped.exists() and not hook.requests


def test_a_receiver_that_is_away_for_long_is_tried_once_an_hour(
    receiving: Environment, clock: Clock, hook: WebhookReceiver
) -> None:
    row = stream(hook, clock)
    write("u1", "1")
    hook.statuses = [500] * 40
    for _ in range(40):
        look(receiving)
        after = AuditStream.unscoped.get(id=row.id)
        assert after.next_at - clock() <= timedelta(seconds=task.WAIT_S_MAX)
        clock.advance(task.WAIT_S_MAX)
    assert len(hook.requests) == 40
    look(receiving)
    assert resources(hook)[-1] == "1" and AuditStream.unscoped.get().failures == 0


# --- to a topic

TOPIC = "persistent://acme/orders/audit"


def to_topic(clock: Clock, uid: str = "u1", topic: str = TOPIC) -> AuditStream:
    return AuditStream.unscoped.create(
        tenant="acme" if uid else "", tenant_uid=uid, topic=topic, created_at=clock(), next_at=clock()
    )


def payloads(broker: WorkerBroker, topic: str = TOPIC) -> list[bytes]:
    """As the web process reads them: a worker may not."""
    broker.real.identity = "web"
    page = broker.real.call(MESSAGES_LIST, MessagesList(topic=topic))
    broker.real.identity = "worker"
    return [base64.b64decode(message.payload) for message in page.messages]


def test_a_topic_gets_the_same_lines_each_as_a_message(environment: Environment, clock: Clock, broker: WorkerBroker) -> None:
    broker.real.add(TOPIC)
    row = to_topic(clock)
    write("u1", "1", "2")
    write("u2", "of another")
    write("u1", "3")
    written, waiting = AuditRecord.unscoped.count(), broker.audit.events.waiting
    assert [outcome["sent"] for outcome in look(environment)] == [3]
    sent = payloads(broker)
    assert sent == [json_line(record) for record in AuditRecord.unscoped.filter(tenant_uid="u1").order_by("id")]
    assert verify_part(read_lines(io.BytesIO(b"".join(sent)))).intact
    assert AuditRecord.unscoped.count() == written and broker.audit.events.waiting == waiting, "publishing leaves no record"
    assert look(environment) == [], "so that there is nothing to send because of what was sent"
    row.refresh_from_db()
    assert (row.gaps, row.failures, turn_of(row.id)) == (0, 0, Turn("u1", ""))


def test_what_a_topic_does_not_take_comes_again_in_order(environment: Environment, clock: Clock, broker: WorkerBroker) -> None:
    broker.real.add(TOPIC)
    to_topic(clock)
    write("u1", "1", "2")
    written = AuditRecord.unscoped.count()
    broker.divert(MESSAGES_PUBLISH, lambda asked: _refuse())
    (outcome,) = look(environment)
    assert (outcome["sent"], outcome["problem"]) == (0, "a spend cap is reached")
    row = AuditStream.unscoped.get()
    assert (row.failures, row.problem, row.sent_id) == (1, "a spend cap is reached", 0)
    assert look(environment) == [] and AuditRecord.unscoped.count() == written, "a failure leaves no record either"
    broker.mend()
    clock.advance(task.WAIT_S)
    write("u1", "3")
    look(environment)
    assert [record.resource for record in read_lines(io.BytesIO(b"".join(payloads(broker))))] == ["1", "2", "3"]


def _refuse() -> None:
    raise QuotaExceeded("a spend cap is reached")


def test_of_a_partitioned_topic_all_are_in_one_partition(
    environment: Environment, clock: Clock, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "MESSAGES_MAX", 2)
    broker.real.add_partitioned(TOPIC, 3)
    to_topic(clock, uid="")
    write("u1", *map(str, range(5)))
    assert [outcome["sent"] for outcome in look(environment)] == [5]
    of_partitions = [payloads(broker, f"{TOPIC}-partition-{index}") for index in range(3)]
    (whole,) = filter(None, of_partitions)
    assert [record.resource for record in read_lines(io.BytesIO(b"".join(whole)))] == list(map(str, range(5)))


def test_another_target_begins_where_the_former_one_ended(environment: Environment, clock: Clock, broker: WorkerBroker) -> None:
    """A batch that was under way to the former target does not count for the new one."""
    row = to_topic(clock)
    write("u1", "1")
    AuditStream.unscoped.update(topic="persistent://acme/orders/other")
    with platform_scope():
        task.keep_progress(row, sent_id=99)
    assert AuditStream.unscoped.get().sent_id == 0
