"""A tenant that nears a ceiling is told, once a day for each threshold."""

from __future__ import annotations

from datetime import timedelta

import pytest

from messaging.adminrpc.ceilings import CeilingsUsed
from messaging.adminrpc.methods import CEILINGS_USED
from tenants.models import Tenant
from tests.support.brokers.worker_broker import Clock, WorkerBroker
from workers.alerts.models import Notice
from workers.alerts.tasks import evaluate_alerts
from workers.environment import Environment
from workers.runs import run_recorded
from workers.schedule import EVALUATE_ALERTS

pytestmark = pytest.mark.django_db
TOPICS = "max_topics_per_tenant"


def test_each_threshold_is_said_once_a_day_and_of_ceilings_that_are_set(
    environment: Environment, broker: WorkerBroker, clock: Clock
) -> None:
    Tenant.unscoped.create(name="acme", uid="u1", policies={TOPICS: 100, "message_ttl_s": 5})
    Tenant.unscoped.create(name="other", uid="u2", policies={"message_ttl_s": 5})
    used = {"count": 0}
    broker.divert(CEILINGS_USED, lambda asked: CeilingsUsed(used={TOPICS: used["count"], "max_producers_per_tenant": 10**6}))
    clock.advance((10 - clock().minute % 10) % 10 * 60)
    said = []
    for number, count in enumerate((79, 80, 90, 96, 80, 100, 120)):
        used["count"] = count
        said.append(run_recorded(environment, EVALUATE_ALERTS, f"look-{number}", evaluate_alerts)["ceilings"])
    assert said == [0, 1, 0, 1, 0, 1, 0]
    notices = list(Notice.unscoped.order_by("title"))
    assert {(notice.tenant_uid, notice.kind) for notice in notices} == {("u1", "ceiling")}
    assert "Tenant acme uses 100 topics of max_topics_per_tenant = 100 topics, which is at least 100 %" in notices[0].text
    clock.advance(timedelta(days=1).total_seconds())
    assert run_recorded(environment, EVALUATE_ALERTS, "tomorrow", evaluate_alerts)["ceilings"] == 1
    broker.cut()
    clock.advance(600)
    assert run_recorded(environment, EVALUATE_ALERTS, "away", evaluate_alerts)["ceilings"] == 0
