"""Alerts in the console: those of the platform, and what was not mailed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import time_machine

from tenants.models import AuditRecord, Tenant
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import Browse, text
from workers.alerts.models import MailUsage, NotificationTarget, PlatformAlert
from workers.alerts.notices import TenantRef, say

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def at_noon(world: ConsoleBroker) -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


def test_administrators_see_the_disk_and_say_where_notices_go(world: ConsoleBroker, browse: Browse) -> None:
    admin = browse("superuser")
    assert "It was not looked at yet" in text(admin, "/platform/alerts")
    PlatformAlert.objects.create(name="disk", firing=True, value=91, looked_at=NOW)
    say(NOW, TenantRef("", ""), "disk_low", "disk 1", "The disk is nearly full", "91 % are used")
    say(NOW, TenantRef("acme", Tenant.unscoped.get(name="acme").uid), "budget", "b 1", "Budget of acme", "of a tenant")
    page = text(admin, "/platform/alerts")
    assert "91 % used" in page and "The disk is nearly full" in page and "Budget of acme" not in page
    assert "Budget of acme" in text(browse("owner"), "/tenants/acme/alerts")
    assert "nearly full" not in text(browse("owner"), "/tenants/acme/alerts")
    for wrong in ({"webhook_url": "ftp://h/"}, {"mail_to": "nobody"}):
        assert admin.post("/platform/alerts", wrong).status_code == 200
    assert not NotificationTarget.unscoped.exists()
    given = {"webhook_url": "https://hook.example/x", "mail_to": "ops@magnetar.example sre@magnetar.example"}
    assert admin.post("/platform/alerts", given).status_code == 302
    target = NotificationTarget.unscoped.get()
    assert (target.tenant_uid, target.mail_to) == ("", ["ops@magnetar.example", "sre@magnetar.example"])
    assert target.secret in text(admin, "/platform/alerts")
    assert AuditRecord.unscoped.get(action="notifications.set").resource == "notifications"


@pytest.mark.parametrize("page", ["alerts", "budgets", "reports"])
def test_mails_that_were_not_sent_are_said(world: ConsoleBroker, browse: Browse, page: str) -> None:
    acme = Tenant.unscoped.get(name="acme")
    fields = {"tenant": "acme", "tenant_uid": acme.uid, "sent": 200}
    said = "not sent:</strong> this tenant has reached its limit"
    row = MailUsage.unscoped.create(day=NOW.date(), **fields)
    assert said not in text(browse("owner"), f"/tenants/acme/{page}")
    row.refused = 3
    row.save()
    assert said in text(browse("owner"), f"/tenants/acme/{page}") and "3 mails" in text(browse("owner"), f"/tenants/acme/{page}")
    assert said not in text(browse("stranger"), f"/tenants/globex/{page}")
