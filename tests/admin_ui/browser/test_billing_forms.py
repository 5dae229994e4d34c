"""The form of a price plan in a browser: by keyboard alone, with the fields of the chosen kind of price and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from workers.billing.models import PricePlanVersion

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser"), pytest.mark.django_db(transaction=True)]


def test_a_price_plan_is_published_by_keyboard(visit: Callable[..., Page]) -> None:
    page = visit("superuser", "/new-price-plan")
    price = page.get_by_role("group", name="Bytes published")
    expect(price.get_by_label("Tiers")).to_be_hidden()
    page.get_by_role("textbox", name="Plan").focus()
    page.keyboard.type("team")
    price.get_by_role("combobox", name="Price").focus()
    page.keyboard.type("Grad")  # as one chooses in a list
    expect(price.get_by_label("Tiers")).to_be_visible()
    expect(price.get_by_label("Price of a unit or package")).to_be_hidden()
    for _ in range(3):  # unit, included, tiers
        page.keyboard.press("Tab")
    page.keyboard.type("10 0.50\nabove x")
    page.get_by_role("button", name="Publish").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Bytes published.tiers[1].price 'x' is not a number")).to_be_visible()
    price.get_by_label("Tiers").fill("10 0.50\nabove 0.30")
    page.get_by_role("button", name="Publish").press("Enter")
    page.wait_for_url("**/price-plans")
    # A plan's first version begins with this month, as the form offers it.
    expect(page.get_by_role("row").filter(has_text="team")).to_contain_text("In force")
    assert PricePlanVersion.objects.get().document["prices"][0]["tiers"] == [{"up_to": "10", "price": "0.50"}, {"price": "0.30"}]
