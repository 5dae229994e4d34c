"""History over REST: figures in the units of people, what is unknown as null, and to whom. That strangers get none of it,
`test_table.py` tests for every address."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from messaging.history.points import HOUR_MS, MINUTE_MS
from messaging.times import time_text
from tenants.models import Tenant
from tests.support.told_history import minutes, tell
from tests.tenants.world import Caller, World

N = "/api/v1/tenants/acme/namespaces/orders"
TOPIC = "persistent://acme/orders/t"


@pytest.fixture
def olga(world: World, caller: Callable[[str], Caller]) -> Caller:
    return caller("olga")


@pytest.fixture
def begin_ms(olga: Caller) -> int:
    """Two hours ago: from then on 30 minutes are known, 10 are not, and 20 are again."""
    begin_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS - 2 * HOUR_MS
    uid = Tenant.unscoped.get(name="acme").uid
    points = []
    for namespace, topic, subscription in (
        ("", "", ""), ("acme/orders", "", ""), ("acme/orders", TOPIC, ""), ("acme/orders", TOPIC, "s")
    ):  # fmt: skip
        points += minutes(uid, namespace, topic, subscription, begin_ms, 30)
        points += minutes(uid, namespace, topic, subscription, begin_ms + 40 * MINUTE_MS, 20, rate=20)
    tell(points, [(begin_ms, begin_ms + 30 * MINUTE_MS), (begin_ms + 40 * MINUTE_MS, begin_ms + 60 * MINUTE_MS)], 1)
    return begin_ms


def test_every_level_has_its_steps_and_what_is_unknown_is_null(olga: Caller, begin_ms: int) -> None:
    span = {"from": time_text(begin_ms), "until": time_text(begin_ms + HOUR_MS)}
    query = f"?from={span['from']}&until={span['until']}"
    for path in ("/api/v1/tenants/acme", N, f"{N}/topics/t", f"{N}/topics/t/subscriptions/s"):
        found = olga("GET", f"{path}/history{query}").json()
        assert (found["begins"], found["ends"], found["step_seconds"], len(found["steps"])) == (*span.values(), 60, 60)
        first, hole, later = found["steps"][0], found["steps"][35], found["steps"][40]
        assert (first["known_seconds"], hole["known_seconds"], later["known_seconds"]) == (60, 0, 60)
        assert (first["rate_out"], hole["rate_out"], later["rate_out"]) == (10, None, 20)
        assert {name for name, value in hole.items() if value is not None} == {"begins", "known_seconds"}
        assert (found["steps"][29]["backlog_entries"], found["steps"][29]["oldest_age_max_seconds"]) == (29, 29)
    topic = olga("GET", f"{N}/topics/t/history{query}").json()["steps"]
    assert (topic[0]["peak_in"], topic[0]["publish_ms_mean"], topic[0]["publish_ms_max"]) == (20, 2.5, 9)
    assert sum(step["messages_in"] or 0 for step in topic) == 30 * 600 + 20 * 1_200
    namespace = olga("GET", f"{N}/history{query}").json()["steps"]
    assert namespace[0]["peak_in"] is None  # those of topics at different times add up to none


def test_coarser_steps_have_means_of_what_is_known_and_the_highest(olga: Caller, begin_ms: int) -> None:
    query = f"?from={time_text(begin_ms)}&until={time_text(begin_ms + HOUR_MS)}&step_seconds=3600"
    (step,) = olga("GET", f"{N}/topics/t/history{query}").json()["steps"]
    assert step["known_seconds"] == 50 * 60
    assert step["rate_in"] == (30 * 10 + 20 * 20) / 50
    assert (step["backlog_max"], step["backlog_entries"], step["peak_in"]) == (29, 19, 40)
    assert step["backlog_mean"] == (sum(range(30)) + sum(range(20))) / 50


def test_a_span_ends_now_however_late_it_is_asked_to(olga: Caller) -> None:
    begin_ms = time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS - HOUR_MS
    found = olga("GET", f"{N}/topics/t/history?from={time_text(begin_ms)}&until=9999-12-30T00:00:00Z").json()
    assert (found["step_seconds"], len(found["steps"]) in (60, 61, 62)) == (60, True)


def test_what_nobody_told_of_is_all_unknown(olga: Caller) -> None:
    found = olga("GET", f"{N}/topics/other/history?span=1h").json()
    assert {step["known_seconds"] for step in found["steps"]} == {0}


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("span=2h", "use one of 1h, 6h, 24h, 7d, 30d"),
        ("span=1h&from=2026-01-01", "either span, or from and until"),
        ("from=yesterday", "is not a time"),
        ("from=2999-01-01T00:00:00Z&until=2999-01-02T00:00:00Z", "still to come"),
        ("from=2020-01-01T00:00:00Z", "history is kept for 38 days"),
        ("until=2020-01-01T00:00:00Z", "history is kept for 38 days"),
        ("from=0001-01-01T00:00:00Z", "38 days"),
        ("span=30d&step_seconds=60", "use one of 3600, 21600, 86400"),
        ("step_seconds=x", "is not kept of this span"),
        ("steps=1", "is unknown"),
    ],
)
def test_a_span_that_there_is_not_is_refused(olga: Caller, query: str, problem: str) -> None:
    answer = olga("GET", f"{N}/topics/t/history?{query}")
    assert (answer.status_code, problem in answer.json()["detail"]) == (400, True), answer.json()


def test_a_role_that_may_only_see_the_tenant_gets_no_history_of_it(caller: Callable[[str], Caller], world: World) -> None:
    assert caller("sam")("GET", "/api/v1/tenants/acme/history").status_code == 404
    assert caller("sam")("GET", f"{N}/topics/t/history").status_code == 404


def test_a_later_tenant_of_the_name_does_not_see_it(olga: Caller, begin_ms: int) -> None:
    Tenant.unscoped.filter(name="acme").update(uid="another")
    steps = olga("GET", f"{N}/topics/t/history?span=6h").json()["steps"]
    assert all(step["messages_in"] in (None, 0) and step["backlog_entries"] is None for step in steps)
