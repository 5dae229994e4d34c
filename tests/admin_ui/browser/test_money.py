"""What would lower a bill, drafts computed now, and usage to download, on a wide and on a narrow screen."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tenants.models import Tenant
from tests.support.billing.billing_rows import GIB, use, with_plan
from workers.billing.drafts import refresh

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]
LONG = f"a-very-long-name-{'0123456789-' * 9}end"
FITS = "document.documentElement.scrollWidth <= innerWidth"


@pytest.mark.parametrize("width", [1440, 390])
def test_a_bill_is_looked_into_and_its_usage_taken_along(visit: Callable[..., Page], width: int) -> None:
    page = visit("owner", "/tenants", viewport={"width": width, "height": 900})
    acme, now = Tenant.unscoped.get(name="acme"), datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    before = now - timedelta(hours=1)
    month = before.replace(day=1, hour=0)
    with_plan(acme, starts_at=month)
    use(acme, before, topic=f"orders/{LONG}", bytes_in=9 * GIB, messages_in=123_456)
    refresh(acme, month, now)
    page.goto("/tenants/acme/month")
    saving = page.locator("#savings tbody tr")
    expect(saving).to_contain_text("Messages come in that nobody reads.")
    expect(saving).to_contain_text("123,456 messages in, 0 out")
    assert page.evaluate(FITS), "nothing is beyond the edge"
    saving.get_by_role("link").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/topics/{LONG}")
    page.goto("/tenants/acme/invoices")
    page.get_by_role("button", name="Compute drafts now").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Drafts are being computed.")).to_be_visible()
    assert page.evaluate(FITS)
    page.goto(f"/usage?day={before:%Y-%m-%d}&by=topic")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    text = Path(download.value.path()).read_text()
    assert f"persistent://acme/orders/{LONG},123456,{9 * GIB}," in text
