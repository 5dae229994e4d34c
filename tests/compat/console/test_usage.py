"""Usage of what clients did, computed while the broker stands still."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.compat.console.clients import JOBS, PARTS, PAYLOAD_BYTES, PLACED, STEADY, World
from tests.compat.console.pages import Shown, shown
from tests.compat.console.table import OVERHEAD_BYTES, Range, exactly
from tests.compat.console.tabs import Stopped
from tests.support.brokers.standalone import Standalone

pytestmark = [
    pytest.mark.xdist_group("platforms"),
    pytest.mark.standalone,
    pytest.mark.browser,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(300),  # Java starts, and a machine that runs other tests beside it is slow
]
COMPUTED_MS = 180_000


def of(found: list[Shown], topic: str, meter: str) -> list[float]:
    """In all hours."""
    return [one.numbers[0] for one in found if one.hook == f"usage.{meter}" and topic.partition("://")[2] in one.row]


@pytest.fixture
def page(context: BrowserContext, world: World, platform: Standalone, spark: None) -> Page:
    """Computed from the button on, with the broker away meanwhile."""
    page = context.new_page()
    page.goto("/usage?by=topic")
    with Stopped(platform):
        page.get_by_role("button", name="Compute now").click()
        expect(page.locator("#usage tbody tr").filter(has_text=PLACED.rpartition("/")[2]).first).to_be_visible(timeout=COMPUTED_MS)
    return page


def test_usage_is_what_clients_did(page: Page, world: World) -> None:
    found = shown(page, "usage") or []
    for topic in (PLACED, JOBS, PARTS):
        assert sum(of(found, topic, "messages_in")) in exactly(float(world.sent[topic])), topic
        sent_bytes = Range(world.sent[topic] * PAYLOAD_BYTES, world.sent[topic] * (PAYLOAD_BYTES + OVERHEAD_BYTES))
        assert sum(of(found, topic, "bytes_in")) in sent_bytes, topic
        assert sum(of(found, topic, "stored_bytes")) <= sent_bytes.most, topic
        assert sum(of(found, topic, "api_calls")) == 0, topic  # they are of the tenant
    again = world.received[PLACED, "billing"] - world.acknowledged[PLACED, "billing"]
    delivered = Range(
        world.received[PLACED, "billing"], world.received[PLACED, "billing"] + again * (world.restarted + world.stood_still)
    )
    assert sum(of(found, PLACED, "messages_out")) in delivered
    assert sum(of(found, JOBS, "messages_out")) == 0
    assert 0 < sum(of(found, STEADY, "messages_in")) <= world.sent[STEADY]
