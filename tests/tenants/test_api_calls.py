"""Which API calls count, whose they are, and that they reach the files of usage as a broker's meters do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import msgspec
import pytest
from django.conf import settings as django_settings

from controlplane import api_calls
from controlplane.api_calls import ApiCalls, ApiMeter, Caller
from tenants.models import Tenant
from tests.tenants import world as people
from tests.tenants.world import World
from workers.findings.outages import Outage, outages_below

NOON_MS = 1_795_262_400_000
N = "/api/v1/tenants/acme/namespaces/orders"
TOPIC = "persistent://acme/orders/new"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> ApiCalls:
    fresh = ApiCalls()
    monkeypatch.setattr(api_calls, "calls", fresh)
    return fresh


def totals(calls: ApiCalls) -> dict[tuple[str, str, str, str], int]:
    """By tenant, namespace, topic and key."""
    return {
        (one.tenant, one.namespace, one.topic, detail.key): detail.counters[0] for one in calls.changed() for detail in one.details
    }


def test_calls_that_were_carried_out_are_of_what_they_name_and_of_their_key(
    world: World, caller: Callable[[str], people.Caller], call: people.Caller, counted: ApiCalls
) -> None:
    token = world.token("robot@acme")
    acme = Tenant.unscoped.get(name="acme")
    acme.admin_roles = ["robot@acme"]
    acme.save()
    robot = people.Caller(token)
    assert robot("PUT", "/admin/v2/persistent/acme/orders/new").status_code == 204
    assert robot("GET", "/admin/v2/persistent/acme/orders/new/stats").status_code == 200
    assert robot("GET", N).status_code == 200
    assert robot("GET", "/admin/v2/namespaces/acme").status_code == 200
    key = robot("GET", "/api/v1/me").json()["key_id"]
    # None of these counts: what failed, what was refused, people at the console, administrators of the platform, health.
    assert robot("GET", f"{N}s").status_code == 404
    assert robot("GET", "/api/v1/tenants/other").status_code == 404
    assert caller("olga")("GET", N).status_code == 200
    assert call("GET", N).status_code == 200
    assert robot("GET", "/healthz").status_code == 200
    assert totals(counted) == {
        ("acme", "acme/orders", TOPIC, key): 2,
        ("acme", "acme/orders", "", key): 1,
        ("acme", "", "", key): 2,
    }
    assert totals(counted) == {}


def test_names_beyond_the_limit_are_the_tenants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_calls, "OF_TENANT_MAX", 2)
    calls = ApiCalls()
    for number in range(5):
        calls.count(Caller("uid", "acme", "acme/orders", f"{TOPIC}-{number}", "k"))
    calls.count(Caller("uid-2", "other", "other/a", "", "k"))
    assert totals(calls) == {
        ("acme", "acme/orders", f"{TOPIC}-0", "k"): 1,
        ("acme", "acme/orders", f"{TOPIC}-1", "k"): 1,
        ("acme", "", "", ""): 3,
        ("other", "other/a", "", "k"): 1,
    }


async def test_calls_are_written_minute_by_minute_and_a_crash_shows_as_a_hole(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(django_settings.MAGNETAR, data_dir=str(tmp_path), broker_id="b")
    calls, now_ms = ApiCalls(), NOON_MS

    async def boot(started_ms: int) -> ApiMeter:
        nonlocal now_ms
        now_ms = started_ms
        meter = ApiMeter(settings, calls, lambda: now_ms)
        await meter.start()
        return meter

    first = await boot(NOON_MS)
    calls.count(Caller("uid", "acme", "acme/orders", TOPIC, "k"))
    now_ms += 60_000
    await first.collect()
    calls.count(Caller("uid", "acme", "acme/orders", "", "k"))
    calls.count(Caller("uid", "acme", "", "", "k"))
    calls.count(Caller("uid", "acme", "acme/orders", TOPIC, "k"))
    now_ms += 60_000
    await first.collect()
    # Killed; the next one starts in the same millisecond as the last, on a clock that was set back.
    last = await boot(NOON_MS)
    now_ms += 60_000
    await last.end()
    raw = tmp_path / "usage" / "raw"
    found = duckdb.sql(
        f"select namespace, topic, key, seq, value, cumulative, source from read_parquet('{raw}/**/*.parquet') order by all"
    )
    assert found is not None
    assert found.fetchall() == [
        ("", "", "k", 0, 1, 1, "b-web"),
        ("acme/orders", "", "k", 0, 1, 1, "b-web"),
        ("acme/orders", TOPIC, "k", 0, 1, 1, "b-web"),
        ("acme/orders", TOPIC, "k", 1, 1, 2, "b-web"),
    ]
    await (await boot(NOON_MS + 300_000)).end()
    assert outages_below(raw) == []  # the crash was before the clock was set back, so nothing is between the two
    crashed = await boot(NOON_MS + 400_000)
    now_ms += 30_000
    await crashed.collect()
    await (await boot(NOON_MS + 500_000)).end()
    (hole,) = outages_below(raw)
    assert (hole.source, hole.from_ms, hole.until_ms) == ("b-web", NOON_MS + 430_000, NOON_MS + 500_000)
    assert isinstance(hole, Outage)
