"""Deleted namespaces in the recycle bin: gone for everybody at once, restored whole, deleted for good when their time is over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from messaging.adminrpc.methods import NAMES_SEARCH, NAMESPACES_PURGE, TOPICS_LIST, TOPICS_STATS
from messaging.adminrpc.topics import NamesSearch, StatsAsked, TopicsList
from messaging.errors import Conflict, NotFound, NotReady, PreconditionFailed
from tenants import actions, feed
from tenants.access import platform_actor
from tenants.actions.recycled_ends import purge_due
from tenants.models import AuditRecord, Grant, Membership, Namespace, Recycled, RecycledRow, Team, TeamRole, TopicPolicies, User
from tests.support.waiting import eventually_sync
from tests.tenants.world import Caller, World

NAME = "acme/orders"
TOPIC = "persistent://acme/orders/t"
PARTS = "persistent://acme/orders/p"
TENANT = "/api/v1/tenants/acme"
NAMESPACE = f"{TENANT}/namespaces/orders"
BIN = f"{TENANT}/recycled-namespaces"
POLICY = {"recycle_bin_retention_hours": 24}


@pytest.fixture
def olga(world: World) -> Caller:
    """Of a namespace with everything that there is."""
    world.broker.add(TOPIC, "s")
    world.broker.add_partitioned(PARTS, 2, "s")
    world.broker.publish(TOPIC, b"kept")
    caller = Caller(user=User.objects.get(username="olga"))
    assert caller("PATCH", f"{NAMESPACE}/policies", {**POLICY, "message_ttl_s": 5000}).status_code == 200
    assert caller("PATCH", f"{NAMESPACE}/topics/t/policies", {"message_ttl_s": 77}).status_code == 200
    assert caller("PUT", f"{NAMESPACE}/permissions/app@acme", {"actions": ["consume"]}).status_code == 200
    return caller


def items(caller: Caller) -> list[dict[str, Any]]:
    answer = caller("GET", BIN)
    assert answer.status_code == 200, answer.content
    listed: list[dict[str, Any]] = answer.json()["items"]
    return listed


def rows() -> list[dict[str, Any]]:
    """What a namespace is made of, but for what is new with a restore."""
    kinds: tuple[Any, ...] = (Namespace, TopicPolicies, Grant, Membership, TeamRole)
    left: list[dict[str, Any]] = [row for kind in kinds for row in kind.unscoped.order_by("pk").values()]
    return [{name: value for name, value in row.items() if name not in ("restored_at", "state_bytes")} for row in left]


def told(world: World) -> dict[Any, Any]:
    state = {entity: dict(value) for entity, value in world.broker.state.items()}
    for value in state.values():
        value.pop("restored_ms", None)
    return state


def delete(caller: Caller, address: str = NAMESPACE) -> dict[str, Any]:
    assert caller("DELETE", f"{address}?force=true").status_code == 204
    (item,) = items(caller)
    return item


@pytest.mark.parametrize("address", [NAMESPACE, "/admin/v2/namespaces/acme/orders"])
def test_a_deleted_namespace_comes_back_whole(world: World, olga: Caller, address: str) -> None:
    team = Team.unscoped.create(tenant_id="acme", name="crew")
    TeamRole.unscoped.create(team=team, role="viewer", namespace_id=NAME)
    Membership.unscoped.filter(user__username="tom").update(namespace_id=NAME)
    before, state = rows(), told(world)
    assert olga("DELETE", address).status_code == 409, "it has topics"
    item = delete(olga, address)
    assert (item["name"], item["deleted_by"]) == (NAME, "user:olga")
    assert item["contents"] == {"topics": 3, "partitioned_topics": 1}
    record = AuditRecord.unscoped.filter(action="namespace.delete").first()
    assert record is not None and record.after is not None and record.after["recycle_id"] == item["recycle_id"]
    at = f"{BIN}/{item['recycle_id']}"
    assert olga("GET", at).json() == item
    dry = olga("POST", f"{at}/restore?dry_run=true").json()
    assert dry["affected"] == item["contents"] and not Namespace.unscoped.filter(name=NAME).exists()
    done = olga("POST", f"{at}/restore").json()
    assert done == {**dry, "dry_run": False} and items(olga) == [] and not RecycledRow.unscoped.exists()
    assert rows() == before and told(world) == state
    assert world.broker.backlog(TOPIC) == 1 and world.broker.partitions(PARTS) == 2
    assert AuditRecord.unscoped.get(action="namespace.restore").resource == NAME
    assert olga("POST", f"{at}/restore").status_code == 404


def test_nothing_of_it_is_there_meanwhile(world: World, olga: Caller) -> None:
    world.broker.connect_producer(TOPIC)
    topic = world.broker.service.topics.loaded[TOPIC]
    delete(olga)
    eventually_sync(lambda: not world.broker.service.topics.loaded_of(NAME))
    assert not topic.in_use
    for method, path in (
        ("GET", NAMESPACE),
        ("GET", f"{NAMESPACE}/topics"),
        ("GET", f"{NAMESPACE}/topics/t"),
        ("GET", f"{NAMESPACE}/recycle-bin"),
        ("GET", "/admin/v2/persistent/acme/orders"),
        ("GET", "/admin/v2/persistent/acme/orders/t/stats"),
        ("DELETE", "/admin/v2/namespaces/acme/orders"),
    ):
        assert olga(method, path).status_code == 404, path
    assert [each["name"] for each in olga("GET", f"{TENANT}/namespaces").json()["items"]] == []
    for connect in (lambda: world.broker.connect_producer(TOPIC), lambda: world.broker.connect_consumer(TOPIC, "s")):
        with pytest.raises(NotFound):
            connect()
    with pytest.raises(NotFound):
        world.broker.call(TOPICS_LIST, TopicsList(namespace=NAME))
    with pytest.raises(NotFound):
        world.broker.call(TOPICS_STATS, StatsAsked(topic=TOPIC))
    search = world.broker.call(NAMES_SEARCH, NamesSearch(words="t", tenants=["acme"]))
    assert (search.topics, search.subscriptions) == ([], [])
    with pytest.raises(PreconditionFailed):
        world.broker.call(NAMESPACES_PURGE, TopicsList(namespace=NAME))


def test_its_name_is_not_free_meanwhile(world: World, olga: Caller) -> None:
    item = delete(olga)
    for refused in (
        olga("POST", f"{TENANT}/namespaces", {"name": "orders"}),
        olga("PUT", "/admin/v2/namespaces/acme/orders", {}),
    ):
        assert refused.status_code == 409 and b"recycle bin until" in refused.content
    assert olga("POST", f"{BIN}/{item['recycle_id']}/restore").status_code == 200
    assert world.broker.backlog(TOPIC) == 1


def test_only_those_who_may_delete_namespaces_see_it(world: World, olga: Caller) -> None:
    at = f"{BIN}/{delete(olga)['recycle_id']}"
    calls = (("GET", BIN), ("GET", at), ("POST", f"{at}/restore"), ("DELETE", at), ("DELETE", f"{at}?dry_run=true"))
    for username, expected in (("tom", 403), ("sam", 404)):
        caller = Caller(user=User.objects.get(username=username))
        assert [caller(*call).status_code for call in calls] == [expected] * len(calls)
    other = at.replace("/acme/", "/other/")
    sam = Caller(user=User.objects.get(username="sam"))
    assert [sam(method, other).status_code for method in ("GET", "DELETE")] == [404, 404]
    assert len(items(olga)) == 1


def test_deleting_for_good(world: World, olga: Caller) -> None:
    at = f"{BIN}/{delete(olga)['recycle_id']}"
    told = olga("DELETE", f"{at}?dry_run=true").json()
    assert (told["action"], told["affected"]) == ("namespace.purge", {"topics": 3, "partitioned_topics": 1}) and world.broker.topics
    assert olga("DELETE", at).status_code == 204
    assert world.broker.topics == {} and not Recycled.unscoped.exists() and items(olga) == []
    assert AuditRecord.unscoped.get(action="namespace.purge").role == "user:olga"
    assert olga("POST", f"{TENANT}/namespaces", {"name": "orders"}).status_code == 201
    assert world.broker.partitions(PARTS) == 0 and olga("GET", f"{NAMESPACE}/topics").json()["items"] == []


def test_a_purge_that_is_cut_off_is_finished_by_the_workers(world: World, olga: Caller) -> None:
    at = f"{BIN}/{delete(olga)['recycle_id']}"

    def refuse(_: object) -> None:
        raise NotReady("the broker is away")

    world.line.divert(NAMESPACES_PURGE, refuse)
    assert olga("DELETE", at).status_code == 204
    assert items(olga) == [] and olga("POST", f"{at}/restore").status_code == 404 and len(world.broker.topics) == 3
    assert olga("POST", f"{TENANT}/namespaces", {"name": "orders"}).status_code == 409
    worker, now = platform_actor("service:worker"), timezone.now()
    assert purge_due(worker, now, lambda: None)[1].keys() == {NAME}
    world.line.mend()
    assert purge_due(worker, now, lambda: None) == (1, {})
    assert world.broker.topics == {} and not Recycled.unscoped.exists()


def test_workers_delete_it_when_its_time_is_over(world: World, olga: Caller) -> None:
    at = f"{BIN}/{delete(olga)['recycle_id']}"
    worker, now = platform_actor("service:worker"), timezone.now()
    assert purge_due(worker, now + timedelta(hours=23), lambda: None) == (0, {}) and len(items(olga)) == 1
    assert purge_due(worker, now + timedelta(hours=25), lambda: None) == (1, {})
    assert world.broker.topics == {} and olga("GET", at).status_code == 404
    assert AuditRecord.unscoped.get(action="namespace.purge").role == "service:worker"


def test_what_is_protected_does_not_go_there(world: World, olga: Caller) -> None:
    assert olga("PATCH", f"{NAMESPACE}/topics/t/policies", {"deletion_protected": True}).status_code == 200
    assert olga("DELETE", f"{NAMESPACE}?force=true").status_code == 412
    assert olga("PATCH", f"{NAMESPACE}/topics/t/policies", {"deletion_protected": None}).status_code == 200
    at = f"{BIN}/{delete(olga)['recycle_id']}"
    actions.set_tenant_policies(world.admin, "acme", {"deletion_protected": True})
    assert olga("DELETE", at).status_code == 412 and olga("DELETE", f"{at}?dry_run=true").status_code == 412
    assert olga("POST", f"{at}/restore").status_code == 200


def test_a_dry_run_says_what_goes_to_the_bin_and_until_when(world: World, olga: Caller) -> None:
    world.broker.add("persistent://acme/orders/gone")
    world.broker.recycle("persistent://acme/orders/gone", "x1")
    before_ms = timezone.now().timestamp() * 1000
    affected = olga("DELETE", f"{NAMESPACE}?force=true&dry_run=true").json()["affected"]
    until_ms = affected.pop("restorable_until_ms")
    assert before_ms <= until_ms - 24 * 3_600_000 <= timezone.now().timestamp() * 1000
    assert affected == {
        "topics": 3,
        "partitioned_topics": 1,
        "grants": 1,
        "recycled_topics": 1,
        "recycle_bin_retention_hours": 24,
    }
    delete(olga)
    olga("POST", f"{BIN}/{items(olga)[0]['recycle_id']}/restore")
    assert [each["recycle_id"] for each in olga("GET", f"{NAMESPACE}/recycle-bin").json()["items"]] == ["x1"]


def test_without_the_policy_a_namespace_is_deleted_at_once(world: World, olga: Caller) -> None:
    assert olga("PATCH", f"{NAMESPACE}/policies", {"recycle_bin_retention_hours": None}).status_code == 200
    assert olga("DELETE", f"{NAMESPACE}?force=true").status_code == 204
    assert items(olga) == [] and world.broker.topics == {} and ("recycled", NAME) not in world.broker.state


def test_what_changed_meanwhile_stays(world: World, olga: Caller) -> None:
    """A person who is gone, or has another role now, does not get the one back that held in the namespace."""
    team = Team.unscoped.create(tenant_id="acme", name="crew")
    TeamRole.unscoped.create(team=team, role="viewer", namespace_id=NAME)
    Membership.unscoped.filter(user__username="tom").update(namespace_id=NAME)
    item = delete(olga)
    team.delete()
    actions.set_member(world.actor("olga"), "acme", "tom", "viewer")
    assert olga("POST", f"{BIN}/{item['recycle_id']}/restore").status_code == 200
    assert Membership.unscoped.get(user__username="tom").role == "viewer" and not TeamRole.unscoped.exists()


@pytest.mark.parametrize("broken", ["delete", "restore"])
def test_what_is_cut_off_changes_nothing(world: World, olga: Caller, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """Deleting and restoring are a transaction each: before its end everything is as it was."""
    at = ""
    if broken == "restore":
        at = f"{BIN}/{delete(olga)['recycle_id']}"
    before = rows(), list(RecycledRow.unscoped.values()), feed.newest_version()
    append = feed.append_all

    def cut_off(*given: Any) -> int:
        append(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(feed, "append_all", cut_off)
        with pytest.raises(KeyboardInterrupt):
            if at:
                actions.restore_namespace(world.actor("olga"), "acme", at.rpartition("/")[2])
            else:
                actions.delete_namespace(world.actor("olga"), NAME, force=True)
    assert (rows(), list(RecycledRow.unscoped.values()), feed.newest_version()) == before
    if not at:
        at = f"{BIN}/{delete(olga)['recycle_id']}"
    assert olga("POST", f"{at}/restore").status_code == 200 and world.broker.backlog(TOPIC) == 1


def test_a_broker_that_restarts_learns_it_from_the_whole_feed(world: World, olga: Caller) -> None:
    delete(olga)
    page = feed.since(0)
    assert [(change.kind, change.key) for change in page.changes if NAME in change.key] == [("recycled", NAME)]
    world.broker.restart()
    with pytest.raises(NotFound):
        world.broker.connect_producer(TOPIC)


def test_namespaces_in_the_bin_count(world: World, olga: Caller) -> None:
    delete(olga)
    actions.set_tenant_policies(world.admin, "acme", {"max_namespaces_per_tenant": 1})
    refused = olga("POST", f"{TENANT}/namespaces", {"name": "second"})
    assert refused.status_code == 412 and b"recycle bin" in refused.content
    with pytest.raises(Conflict):
        actions.create_namespace(world.actor("olga"), NAME)
