"""When keys were used last: what brokers tell is written down, once, and never goes back in time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from messaging import key_uses
from messaging.errors import NotReady
from messaging.key_uses import MINUTE_MS
from tenants.key_uses import record_key_uses
from tenants.models import Key
from tests.support.brokers.worker_broker import WorkerBroker
from workers.environment import Environment
from workers.tasks.key_uses import collect_key_uses

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 12, 7, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


def add(*key_ids: str) -> None:
    for key_id in key_ids:
        Key.unscoped.create(id=key_id, name=key_id, role=f"{key_id}@acme")


def last_used(key_id: str) -> datetime | None:
    return Key.unscoped.get(id=key_id).last_used_at


def collect(environment: Environment) -> dict[str, object]:
    return collect_key_uses(environment, "run-1", lambda **_: None)


def test_uses_are_written_to_the_minute_and_once(
    environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_uses, "BATCH_MAX", 2)
    add("a", "b", "c", "idle")
    uses = broker.real.service.access.key_uses
    for key_id in ("a", "b", "c"):
        uses.note(key_id, NOW_MS + 59_000)
    assert collect(environment) == {"keys": 3}
    assert [last_used(key_id) for key_id in ("a", "b", "c", "idle")] == [NOW, NOW, NOW, None]
    assert collect(environment) == {"keys": 0}
    uses.note("a", NOW_MS + MINUTE_MS)
    assert collect(environment) == {"keys": 1}
    assert last_used("a") == NOW + timedelta(minutes=1)


def test_what_was_not_written_comes_again(environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    add("a")
    broker.real.service.access.key_uses.note("a", NOW_MS)

    def fail(uses: object) -> int:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("workers.tasks.key_uses.record_key_uses", fail)
        with pytest.raises(OSError, match="full"):
            collect(environment)
    collect(environment)
    assert last_used("a") == NOW


def test_a_broker_that_is_away_keeps_them(environment: Environment, broker: WorkerBroker) -> None:
    add("a")
    broker.real.service.access.key_uses.note("a", NOW_MS)
    broker.cut("the broker does not answer")
    with pytest.raises(NotReady):
        collect(environment)
    broker.mend()
    collect(environment)
    assert last_used("a") == NOW


def test_an_earlier_use_changes_nothing_and_unknown_keys_neither() -> None:
    add("a")
    assert record_key_uses({"a": NOW_MS, "gone": NOW_MS}) == 1
    assert record_key_uses({"a": NOW_MS - MINUTE_MS}) == 0
    assert last_used("a") == NOW


def test_a_thousand_keys_are_a_few_statements() -> None:
    Key.unscoped.bulk_create(Key(id=f"k{number}", name="k", role="k@acme") for number in range(1_000))
    with CaptureQueriesContext(connection) as asked:
        assert record_key_uses({f"k{number}": NOW_MS for number in range(1_000)}) == 1_000
    assert len(asked) <= 2
