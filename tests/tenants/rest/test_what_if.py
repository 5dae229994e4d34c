"""What a change of policies would have done to recorded traffic, over our API. `test_table.py` tests that strangers get none."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.core.cache import cache

from messaging.history.cells import Cell
from messaging.history.points import HOUR_MS, MINUTE_MS
from messaging.times import time_text
from tenants.history import what_if
from tenants.history.reading import read
from tenants.models import Namespace, Tenant
from tests.support.told_history import minutes, tell
from tests.tenants.world import Caller, World

T = "/api/v1/tenants/acme"
N = f"{T}/namespaces/orders"
TOPIC = "persistent://acme/orders/t"
BUSY = 60  # minutes


@pytest.fixture
def olga(world: World, caller: Callable[[str], Caller]) -> Caller:
    world.broker.add(TOPIC)
    return caller("olga")


@pytest.fixture
def span(olga: Caller) -> str:
    """An hour of 10 messages a second, of peaks of 20, and one of which only the first half is known."""
    begin_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS - 3 * HOUR_MS
    uid = Tenant.unscoped.get(name="acme").uid
    points = []
    for namespace, topic, subscription in (
        ("", "", ""), ("acme/orders", "", ""), ("acme/orders", TOPIC, ""), ("acme/orders", TOPIC, "s"),
        ("acme/orders", "persistent://acme/orders/p", ""),
        *(("acme/orders", f"persistent://acme/orders/p-partition-{index}", "") for index in range(2)),
    ):  # fmt: skip
        points += minutes(uid, namespace, topic, subscription, begin_ms, BUSY)
    tell(points, [(begin_ms, begin_ms + (BUSY + 30) * MINUTE_MS)], 1)
    return f"?from={time_text(begin_ms)}&until={time_text(begin_ms + 2 * HOUR_MS)}"


def ask(call: Caller, at: str, span: str, **changes: Any) -> dict[str, Any]:
    answer = call("POST", f"{at}/policies/what-if{span}", changes)
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def test_a_rate_of_a_topic_holds_its_producers(olga: Caller, span: str) -> None:
    found = ask(olga, f"{N}/topics/t", span, publish_rate_messages=8)
    (finding,) = found["findings"]
    assert (finding["outcome"], finding["limit"], finding["most_seen"]) == ("publishing_held", 8, 20)
    # 2 of 10 a second are carried on, a quarter of an hour of work when the traffic ends. At least: what is carried from minute to
    # minute is 15 s more of work each time. At most: the first minute came at its peak, at its end.
    whole_s = (BUSY + BUSY * 2 // 8) * 60
    assert finding["at_least_seconds"] == whole_s - (60 + 45 + 30 + 15)
    assert finding["at_most_seconds"] == whole_s + (60 * 10 * (20 - 8) / 20 - 60 * 2) / 8
    assert (found["known_seconds"], found["topics_looked_at"], found["unknown"]) == (90 * 60, 1, [])
    calm = ask(olga, f"{N}/topics/t", span, publish_rate_messages=20)["findings"]
    assert [(each["at_most_seconds"], each["most_seen"]) for each in calm] == [(0, 20)]
    assert Namespace.unscoped.get(name="acme/orders").policies == {}


def test_a_namespace_asks_about_each_of_its_topics_and_partitions_but_not_those_that_set_it(olga: Caller, span: str) -> None:
    assert olga("PATCH", f"{N}/topics/t/policies", {"publish_rate_messages": 100}).status_code == 200
    found = ask(olga, N, span, publish_rate_messages=8)
    assert {each["topic"].rpartition("/")[2] for each in found["findings"]} == {"p-partition-0", "p-partition-1"}
    assert found["topics_looked_at"] == 3
    (whole,) = ask(olga, N, span, namespace_publish_rate_messages=8)["findings"]
    assert (whole["topic"], whole["namespace"], whole["most_seen"]) == ("", "acme/orders", 10)


def test_what_is_in_force_already_or_limits_nothing_has_no_finding(olga: Caller, span: str) -> None:
    assert ask(olga, N, span, publish_rate_messages=-1)["findings"] == []
    assert olga("PATCH", f"{N}/policies", {"publish_rate_messages": 8}).status_code == 200
    assert ask(olga, N, span, publish_rate_messages=8)["findings"] == []


def test_subscriptions_ages_and_what_history_says_nothing_of(olga: Caller, span: str) -> None:
    (expired,) = ask(olga, f"{N}/topics/t", span, message_ttl_s=30)["findings"]
    assert (expired["outcome"], expired["subscription"], expired["limit"]) == ("expired", "s", 30)
    assert 0 < expired["at_least_seconds"] <= expired["at_most_seconds"] <= 90 * 60
    (quota,) = ask(olga, f"{N}/topics/t", span, backlog_quota_bytes=1 << 20)["findings"]
    assert (quota["outcome"], quota["at_least_seconds"]) == ("publishing_refused", 0)
    found = ask(olga, N, span, schema_enforced=True, dispatch_rate_messages=1, dispatch_rate_relative=True)
    assert (found["findings"], found["unknown"]) == ([], ["schema_enforced", "dispatch_rate_messages", "dispatch_rate_bytes"])
    (rate,) = ask(olga, f"{N}/topics/t/subscriptions/s", span, subscription_dispatch_rate_messages=1)["findings"]
    assert (rate["outcome"], rate["most_seen"]) == ("delivery_held", 10)


def test_retention_keeps_no_more_than_what_came_in(olga: Caller, span: str) -> None:
    kept = ask(olga, f"{N}/topics/t", span, retention_time_min=1440, retention_size_mb=-1)["retention"]
    assert (kept["bytes_at_most"], kept["seconds"], kept["forever"]) == (BUSY * 60_000, 86_400, False)
    small = ask(olga, N, span, retention_time_min=-1, retention_size_mb=1)["retention"]
    assert (small["bytes_at_most"], small["forever"]) == (3 << 20, True), "a topic, and two partitions"
    assert ask(olga, N, span, retention_time_min=0, retention_size_mb=0)["retention"] is None


def test_a_tenant_is_asked_about_by_the_platform_alone(
    olga: Caller, span: str, world: World, caller: Callable[[str], Caller]
) -> None:
    assert olga("POST", f"{T}/policies/what-if", {"tenant_publish_rate_messages": 8}).status_code == 403
    (whole,) = ask(caller("admin"), T, span, tenant_publish_rate_messages=8)["findings"]
    assert (whole["policy"], whole["namespace"], whole["at_most_seconds"] > 0) == ("tenant_publish_rate_messages", "", True)
    assert len(ask(caller("admin"), T, span, max_producers_per_topic=1)["findings"]) == 3


def test_what_cannot_be_set_is_refused_as_setting_it_is(olga: Caller, span: str) -> None:
    wrong = olga("POST", f"{N}/policies/what-if", {"message_ttl_s": -5})
    assert wrong.status_code == 400
    assert olga("POST", f"{N}/policies/what-if?span=1y", {"message_ttl_s": 5}).status_code == 400
    assert olga("POST", f"{N}/topics/none/policies/what-if", {"message_ttl_s": 5}).status_code == 404


def test_a_question_takes_so_much_time_and_says_what_it_left_out(olga: Caller, span: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty topics and as many subscriptions took a web process 22 seconds, and a tenant could ask often at once."""
    whole = ask(olga, N, span, publish_rate_messages=8)
    monkeypatch.setattr(what_if, "LOOK_S_MAX", 0)
    found = ask(olga, N, span, publish_rate_messages=8)
    assert (len(whole["findings"]), whole["topics_left_out"]) == (3, 0)
    assert (len(found["findings"]), found["topics_left_out"]) == (1, 2)
    kept = ask(olga, N, span, retention_time_min=300, retention_size_mb=-1)
    assert kept["retention"]["bytes_at_most"] > 0 and kept["topics_left_out"] == 2


def test_a_tenant_has_one_question_answered_at_a_time_and_others_theirs(
    olga: Caller, caller: Callable[[str], Caller], span: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    during: list[int] = []

    def reading(*asked: Any) -> list[Cell]:
        if not during:
            during.append(0)
            again = olga("POST", f"{N}/policies/what-if{span}", {"publish_rate_messages": 8})
            assert "another change" in again.json()["detail"]
            other = caller("sam")("POST", f"/api/v1/tenants/other/namespaces/things/policies/what-if{span}", {})
            during[:] = [again.status_code, other.status_code]
        return read(*asked)

    monkeypatch.setattr(what_if, "read", reading)
    ask(olga, N, span, publish_rate_messages=8)
    assert during == [429, 200]
    ask(olga, N, span, publish_rate_messages=8)


def test_topics_whose_names_begin_alike_are_not_told_of(olga: Caller, span: str) -> None:
    """Somebody may have one topic and not another whose name begins with its name, or differs in capital letters."""
    begin_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS - 2 * HOUR_MS
    uid = Tenant.unscoped.get(name="acme").uid
    for batch, local in enumerate(("T-partition-0", "t-partition-0-secret"), 2):
        topic = f"persistent://acme/orders/{local}"
        tell(minutes(uid, "acme/orders", topic, "", begin_ms, BUSY), [(begin_ms, begin_ms + BUSY * MINUTE_MS)], batch)
    found = ask(olga, f"{N}/topics/t", span, publish_rate_messages=8)
    assert sorted(each["topic"].rpartition("/")[2] for each in found["findings"]) == ["t"]
    assert len(ask(olga, N, span, publish_rate_messages=8)["findings"]) == 5


def test_a_tenant_asks_one_question_at_a_time_of_all_web_processes(olga: Caller, span: str) -> None:
    """What another process answers is in the cache that they share."""
    uid = Tenant.unscoped.get(name="acme").uid
    cache.set(f"what-if:{uid}", "of another process", what_if.ALONE_S)
    refused = olga("POST", f"{N}/topics/t/policies/what-if{span}", {"publish_rate_messages": 8})
    assert refused.status_code == 429 and "ask again when that is done" in refused.json()["detail"], refused.content
    assert cache.get(f"what-if:{uid}") == "of another process", "nobody ends the turn of another"
    cache.delete(f"what-if:{uid}")
    for _ in range(2):
        assert ask(olga, f"{N}/topics/t", span, publish_rate_messages=8)["findings"]
