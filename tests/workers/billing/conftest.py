"""Ten days of usage of a tenant, and the task that makes reports and tells of budgets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail

from messaging.settings import Settings
from tenants.models import Tenant
from tests.support.billing.billing_rows import GIB, HOUR, MARCH, tenant_of, use, with_plan
from tests.support.brokers.worker_broker import WorkerBroker
from workers.alerts.tasks import send_notice
from workers.billing.drafts import refresh
from workers.environment import Environment
from workers.models import TaskRun
from workers.runs import run_recorded
from workers.schedule import SEND_NOTICE
from workers.tasks.reports import make_reports

Work = Callable[..., dict[str, Any]]
TENTH = MARCH + timedelta(days=10)


@pytest.fixture
def acme(db: None) -> Tenant:
    """Ten days of 10 GiB each in one topic that nobody reads: the first 10 GiB cost 0.50 each, the others 0.30; 29.00 are fees."""
    tenant = tenant_of()
    with_plan(tenant)
    for day in range(10):
        use(tenant, MARCH + day * 24 * HOUR, bytes_in=10 * GIB, messages_in=5, stored_byte_seconds=GIB)
    refresh(tenant, MARCH, TENTH)
    return tenant


@pytest.fixture
def work(settings_of: Callable[..., Settings], broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch) -> Work:
    real = mail.get_connection
    monkeypatch.setattr(mail, "get_connection", lambda backend, **_: real("django.core.mail.backends.locmem.EmailBackend"))

    def at(now: Any, **values: object) -> dict[str, Any]:
        """What was to be said is sent, too."""
        environment = Environment(settings_of(**{"smtp_url": "smtp://localhost:25", **values}), broker, now=lambda: now)
        done = make_reports(environment, "task-1", lambda: None)
        for run in TaskRun.objects.filter(name=SEND_NOTICE, outcome="queued").order_by("started_at"):
            run_recorded(environment, SEND_NOTICE, run.task_id, send_notice, **run.arguments)
        return done

    return at
