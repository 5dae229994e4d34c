"""The broker's audit events in the audit log: each once, whoever dies in the middle."""

from __future__ import annotations

import pytest

from messaging.adminrpc.audit import AuditEvent, AuditTake, AuditTaken
from messaging.adminrpc.methods import AUDIT_TAKE
from messaging.errors import AuthenticationFailed, NotReady
from messaging.permissions.model import Action, Principal, Resource
from tenants.models import AuditRecord
from tests.support.brokers.worker_broker import WorkerBroker
from workers.environment import Environment
from workers.models import AuditCursor
from workers.runs import run_recorded
from workers.schedule import COLLECT_AUDIT
from workers.tasks import audit
from workers.tasks.audit import collect_audit

pytestmark = pytest.mark.django_db

APP = Principal("app@acme", "k1", address="10.0.0.1")


def collect(environment: Environment, run: str = "run-1") -> dict[str, object]:
    return run_recorded(environment, COLLECT_AUDIT, run, collect_audit)


def deny(broker: WorkerBroker, topic: str, tenant: str = "acme") -> None:
    name = f"persistent://{tenant}/orders/{topic}"
    broker.audit.denied(APP, Action.PRODUCE, Resource(tenant, f"{tenant}/orders", name))


def test_events_become_records_of_their_tenant(environment: Environment, broker: WorkerBroker) -> None:
    for _ in range(3):
        deny(broker, "t")
    assert collect(environment) == {"outcome": "succeeded", "records": 1, "events": 3}
    record = AuditRecord.unscoped.get()
    assert (record.action, record.role, record.key_id, record.address) == ("broker.denied", "app@acme", "k1", "10.0.0.1")
    assert (record.tenant, record.tenant_uid, record.resource) == ("acme", "u1", "persistent://acme/orders/t")
    assert record.before is None and record.after == {
        "count": 3,
        "first": "2026-11-21T12:00:00.000+00:00",
        "last": "2026-11-21T12:00:00.000+00:00",
        "why": "lacks produce",
    }
    assert broker.audit.events.pending == 0, "acknowledged in the same run"


def test_of_a_tenant_that_does_not_exist_they_are_the_platforms(environment: Environment, broker: WorkerBroker) -> None:
    deny(broker, "t", tenant="nobody")
    broker.audit.sign_in_failed(AuthenticationFailed("not valid here\x07"), "10.0.0.2")
    collect(environment)
    denied, failed = AuditRecord.unscoped.order_by("id")
    assert (denied.tenant, denied.tenant_uid, denied.resource) == ("", "", "persistent://nobody/orders/t")
    assert (failed.action, failed.role, failed.address, failed.tenant_uid) == ("broker.sign_in_failed", "unknown", "10.0.0.2", "")
    assert failed.after is not None and failed.after["why"] == "not valid here "


def test_twice_the_same_events_are_recorded_once(environment: Environment, broker: WorkerBroker) -> None:
    """The answer is written, and the acknowledgement never comes: the broker gives the same events out again."""
    deny(broker, "t")
    taken = broker.call(AUDIT_TAKE, AuditTake())
    assert len(audit.write_records(taken)) == 1
    assert audit.write_records(taken) == []
    assert collect(environment)["records"] == 0
    assert AuditRecord.unscoped.count() == 1


def test_a_worker_that_dies_before_the_commit_loses_nothing(
    environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    deny(broker, "before")
    collect(environment)

    def dies(cursor: AuditCursor) -> None:
        raise NotReady("the database went away")

    deny(broker, "t")
    with monkeypatch.context() as patched:
        patched.setattr(AuditCursor, "save", dies)
        assert collect(environment, "run-2")["outcome"] == "failed"
    assert (AuditRecord.unscoped.count(), broker.audit.events.pending) == (1, 1)
    assert collect(environment, "run-3")["records"] == 1
    assert AuditRecord.unscoped.count() == 2


def test_a_broker_that_is_away_keeps_them(environment: Environment, broker: WorkerBroker) -> None:
    deny(broker, "t")
    broker.cut()
    assert collect(environment)["outcome"] == "failed"
    broker.mend()
    assert collect(environment, "run-2")["records"] == 1


def test_a_restarted_broker_begins_its_numbers_anew_and_the_restart_is_recorded(
    environment: Environment, broker: WorkerBroker
) -> None:
    deny(broker, "t")
    collect(environment)
    broker.real.restart()
    deny(broker, "t")
    assert collect(environment, "run-2")["records"] == 1
    assert [record.action for record in AuditRecord.unscoped.order_by("id")] == ["broker.denied", "broker.restart", "broker.denied"]
    assert AuditRecord.unscoped.get(action="broker.restart").tenant_uid == ""


def test_many_pages_are_one_run_and_further_ones_are_counted(environment: Environment, broker: WorkerBroker) -> None:
    for number in range(2_000):
        deny(broker, f"t{number}")
    summary = collect(environment)
    assert summary["events"] == 2_000
    more = AuditRecord.unscoped.get(action="broker.denied.more")
    assert more.after is not None and more.after["count"] == broker.audit.events.further
    assert (more.tenant_uid, more.role, more.key_id) == ("u1", "app@acme", "k1")
    assert AuditRecord.unscoped.count() == summary["records"]


def test_records_that_come_during_a_run_wait_for_the_next(
    environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood that goes on would keep a run, and the log, going for ever."""
    wrote = audit.write_records

    def write(taken: AuditTaken) -> list[AuditEvent]:
        assert broker.audit.events.recorded < 20, "the run does not end"
        deny(broker, f"during {broker.audit.events.recorded}")
        return wrote(taken)

    deny(broker, "before")
    with monkeypatch.context() as patched:
        patched.setattr(audit, "write_records", write)
        assert collect(environment)["records"] == 1
    assert collect(environment, "run-2")["records"] == 1
    assert AuditRecord.unscoped.count() == 2


def test_the_answer_of_an_empty_table_writes_nothing(environment: Environment, broker: WorkerBroker) -> None:
    assert isinstance(broker.call(AUDIT_TAKE, AuditTake()), AuditTaken)
    assert collect(environment) == {"outcome": "succeeded", "records": 0, "events": 0}
    assert not AuditRecord.unscoped.exists()
