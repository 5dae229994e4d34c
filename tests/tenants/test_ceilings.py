"""Ceilings of a tenant: administrators of the platform set them, its own see them, and what the control plane owns is enforced."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest
from django.core.cache.backends.locmem import LocMemCache

from messaging.adminrpc.ceilings import CeilingsUsed
from messaging.adminrpc.methods import CEILINGS_USED
from messaging.errors import NotReady, PreconditionFailed, QuotaExceeded
from messaging.policies.ceilings import CEILINGS
from tenants import actions, call_rates
from tenants.call_rates import BURST_S, TENANTS_MAX, CallRates
from tenants.models import AuditRecord, Namespace
from tests.tenants.world import Caller, World

AT = "/api/v1/tenants/acme/ceilings"
NOW_MS = 1_800_000_000_000
_number = count()


@pytest.fixture
def root(world: World) -> Caller:
    return Caller(world.superuser_token)


def ceilings(call: Caller, at: str = AT) -> dict[str, dict[str, Any]]:
    answer = call("GET", at)
    assert answer.status_code == 200, answer.content
    return {ceiling["name"]: ceiling for ceiling in answer.json()["ceilings"]}


def set_ceilings(world: World, **changes: int | None) -> None:
    actions.set_tenant_policies(world.admin, "acme", dict(changes))


# --- the API


def test_an_administrator_of_the_platform_sets_them_and_the_tenants_people_see_them(
    root: Caller, caller: Callable[[str], Caller], world: World
) -> None:
    world.line.divert(CEILINGS_USED, lambda asked: CeilingsUsed(used={"max_topics_per_tenant": 4, "max_connections_per_tenant": 9}))
    answer = root("PATCH", AT, {"max_topics_per_tenant": 5, "max_keys_per_tenant": 2, "tenant_publish_rate_bytes": 1 << 20})
    assert answer.json() == {"set": {"max_topics_per_tenant": 5, "max_keys_per_tenant": 2, "tenant_publish_rate_bytes": 1 << 20}}
    for who in ("olga", "tom"):
        shown = ceilings(caller(who))
        assert shown.keys() == CEILINGS.keys()
        topics = shown["max_topics_per_tenant"]
        assert (topics["limit"], topics["used"], topics["used_percent"], topics["level"]) == (5, 4, 80, "tenant")
        assert (topics["limit_text"], topics["used_text"]) == ("5 topics", "4 topics")
        assert (shown["max_connections_per_tenant"]["limit"], shown["max_connections_per_tenant"]["used_percent"]) == (None, None)
        assert shown["max_connections_per_tenant"]["used"] == 9
        assert shown["max_partitions_per_tenant"]["used_text"] == "unknown"  # this broker does not tell
        assert (shown["max_namespaces_per_tenant"]["used"], shown["max_namespaces_per_tenant"]["level"]) == (1, "broker")
        assert shown["tenant_publish_rate_bytes"]["limit_text"] == "1 MiB/s"
    assert world.broker.state["tenant", "acme"]["policies"]["max_topics_per_tenant"] == 5
    record = AuditRecord.unscoped.filter(action="tenant.set_policies", tenant="acme").latest("id")
    assert (record.before, record.after) == (
        {"policies": {}},
        {"policies": {"max_topics_per_tenant": 5, "max_keys_per_tenant": 2, "tenant_publish_rate_bytes": 1 << 20}},
    )
    assert root("PATCH", AT, {"max_topics_per_tenant": None}).json()["set"].keys() == {
        "max_keys_per_tenant",
        "tenant_publish_rate_bytes",
    }


@pytest.mark.parametrize(("who", "reading", "setting"), [("olga", 200, 403), ("tom", 200, 403), ("sam", 404, 404)])
def test_nobody_else_sets_them_and_strangers_do_not_see_them(
    caller: Callable[[str], Caller], world: World, who: str, reading: int, setting: int
) -> None:
    call = caller(who)
    assert call("GET", AT).status_code == reading
    assert call("PATCH", AT, {"max_topics_per_tenant": 0}).status_code == setting


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"message_ttl_s": 5}, "'message_ttl_s': no such ceiling; there are max_"),
        ({"max_topics_per_tenant": -1}, "max_topics_per_tenant"),
        ({"max_topics_per_tenant": "many"}, "max_topics_per_tenant"),
    ],
)
def test_what_is_no_ceiling_is_refused(root: Caller, changes: dict[str, Any], says: str) -> None:
    answer = root("PATCH", AT, changes)
    assert answer.status_code == 400 and says in answer.json()["detail"]


def test_what_the_broker_owns_is_unknown_while_it_does_not_answer(root: Caller, world: World) -> None:
    def away(asked: object) -> CeilingsUsed:
        raise NotReady("the broker is away")

    world.line.divert(CEILINGS_USED, away)
    shown = ceilings(root)
    assert shown["max_producers_per_tenant"]["used"] is None and shown["max_namespaces_per_tenant"]["used"] == 1


# --- namespaces, keys, retention


def test_policy_max_keys_per_tenant_takes_nothing_and_refuses_the_next(world: World) -> None:
    olga = world.actor("olga")
    keys = [actions.create_key(olga, "acme", "app").key for _ in range(3)]
    actions.create_namespace(olga, "acme/second")
    set_ceilings(world, max_keys_per_tenant=2, max_namespaces_per_tenant=1)
    with pytest.raises(PreconditionFailed, match="has 3 keys and has reached max_keys_per_tenant = 2: revoke one first"):
        actions.create_key(olga, "acme", "app")
    actions.revoke_key(olga, "acme", keys[0].id)
    with pytest.raises(PreconditionFailed, match="max_keys_per_tenant = 2"):  # forgetting it would leave as many as before
        actions.create_key(olga, "acme", "app")
    with pytest.raises(PreconditionFailed, match=r"has 2 namespaces, .*and has reached max_namespaces_per_tenant = 1"):
        actions.create_namespace(olga, "acme/third")
    assert Namespace.unscoped.filter(tenant="acme").count() == 2
    actions.create_key(world.actor("sam"), "other", "app")
    set_ceilings(world, max_keys_per_tenant=None)
    actions.create_key(olga, "acme", "app")


def test_policy_max_retention_size_mb_and_time_hold_wherever_they_are_set(
    world: World, root: Caller, caller: Callable[[str], Caller]
) -> None:
    olga, topic = caller("olga"), "/api/v1/tenants/acme/namespaces/orders/topics/t/policies"
    world.broker.add("persistent://acme/orders/t")
    namespace = "/api/v1/tenants/acme/namespaces/orders/policies"
    large = {"retention_time_min": 1_000, "retention_size_mb": -1}
    assert olga("PATCH", namespace, large).status_code == 200
    set_ceilings(world, max_retention_time_min=60, max_retention_size_mb=100)
    for at in (namespace, topic):
        for values in (
            {"retention_time_min": 61, "retention_size_mb": 5},
            {"retention_time_min": 5, "retention_size_mb": -1},
            large,
        ):
            answer = olga("PATCH", at, values)
            assert answer.status_code == 412 and "max_retention_" in answer.json()["detail"], answer.content
        assert olga("PATCH", at, {"retention_time_min": 60, "retention_size_mb": 100}).status_code == 200
    pulsar = olga("POST", "/admin/v2/namespaces/acme/orders/retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": 5})
    assert pulsar.status_code == 412 and "max_retention_time_min of the tenant is 60" in pulsar.json()["reason"]
    assert root("PATCH", "/api/v1/tenants/acme/policies", large).status_code == 412
    assert olga("PATCH", namespace, {"message_ttl_s": 5}).status_code == 200  # anything else may be set
    shown = ceilings(olga)
    assert (shown["max_retention_time_min"]["used"], shown["max_retention_time_min"]["used_percent"]) == (60, 100)


def test_what_was_set_before_a_ceiling_stays(world: World, caller: Callable[[str], Caller]) -> None:
    olga, namespace = caller("olga"), "/api/v1/tenants/acme/namespaces/orders/policies"
    olga("PATCH", namespace, {"retention_time_min": -1, "retention_size_mb": -1})
    set_ceilings(world, max_retention_time_min=60)
    assert olga("GET", namespace).json()["retention_time_min"] == -1
    retention = ceilings(olga)["max_retention_time_min"]
    assert (retention["used_text"], retention["used_percent"]) == ("unlimited", 100)


def test_policy_max_retention_time_min_holds_for_a_new_namespace(world: World) -> None:
    set_ceilings(world, max_retention_time_min=60)
    policies = {"retention_time_min": 61, "retention_size_mb": 5}
    with pytest.raises(PreconditionFailed, match="max_retention_time_min of the tenant is 60"):
        actions.create_namespace(world.actor("olga"), "acme/second", policies)


# --- calls of the admin API


def counts() -> LocMemCache:
    """A cache that web processes share, with nothing in it."""
    return LocMemCache(f"counts-{next(_number)}", {"OPTIONS": {"MAX_ENTRIES": 100_000}})


def test_web_processes_count_together() -> None:
    """Each alone would let all of them pass: together they have what one has, and a share of each may be lost."""
    shared, calls_per_s, seconds = counts(), 20, 100
    processes = [CallRates(shared) for _ in range(4)]
    passed = 0
    for step in range(seconds * calls_per_s):
        for process in processes:
            try:
                process.take("acme", calls_per_s, NOW_MS + step * 1000 // calls_per_s)
                passed += 1
            except QuotaExceeded as error:
                assert "over all web processes" in error.message
    assert seconds * calls_per_s * 0.9 <= passed <= (seconds + 2 * BURST_S) * calls_per_s


def test_calls_a_second_after_a_burst_for_each_tenant_alone() -> None:
    rates = CallRates(counts())
    for _ in range(5 * BURST_S):
        rates.take("acme", 5, NOW_MS)
    with pytest.raises(QuotaExceeded, match=r"made 51 calls within a second, and tenant_admin_rate_calls = 5: try again in 200 ms"):
        rates.take("acme", 5, NOW_MS)
    rates.take("other", 5, NOW_MS)
    rates.take("acme", 5, NOW_MS + 200)
    assert rates.of_last_second("acme", NOW_MS + 1_000) == 52
    assert (rates.of_last_second("acme", NOW_MS + 5_000), rates.of_last_second("nobody", NOW_MS)) == (0, 0)
    rates.take("acme", 500, NOW_MS + 1_000)  # raised: it counts from then on


def test_a_ceiling_that_is_lowered_counts_at_once() -> None:
    rates = CallRates(counts())
    rates.take("acme", 1_000, NOW_MS)
    for _ in range(BURST_S):
        rates.take("acme", 1, NOW_MS)
    with pytest.raises(QuotaExceeded):
        rates.take("acme", 1, NOW_MS)


def test_many_threads_never_get_more_than_there_is_and_what_is_remembered_is_bounded() -> None:
    rates = CallRates(counts())

    def call(_: int) -> bool:
        try:
            rates.take("acme", 2, NOW_MS)
        except QuotaExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(call, range(200))) == 2 * BURST_S
    for number in range(TENANTS_MAX + 5):
        rates.take(f"tenant-{number}", 1, NOW_MS)
    assert len(rates) == TENANTS_MAX


def test_policy_tenant_admin_rate_calls_makes_a_key_wait_and_no_other(
    root: Caller, caller: Callable[[str], Caller], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.middleware.call_rates", CallRates(counts()))
    monkeypatch.setattr(call_rates, "BURST_S", 2)
    set_ceilings(world, tenant_admin_rate_calls=1)
    actions.update_tenant(world.admin, "acme", admin_roles=["app@acme"])
    call = Caller(world.token("app@acme"))
    answers = [call("GET", AT) for _ in range(4)]
    assert [answer.status_code for answer in answers].count(200) <= 3
    assert answers[-1].status_code == 429 and "tenant_admin_rate_calls = 1" in answers[-1].json()["detail"]
    pulsar = call("GET", "/admin/v2/namespaces/acme")
    assert pulsar.status_code == 429 and "tenant_admin_rate_calls = 1" in pulsar.json()["reason"]
    for other in (root, caller("olga"), Caller(world.token("app@other", tenant="other"))):
        assert other("GET", "/api/v1/me").status_code == 200
