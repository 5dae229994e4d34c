"""Subscriptions over /api/v1: what is done, what a dry run says and does not do, and who is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenants.models import AuditRecord
from tests.tenants.world import Caller, World

TOPIC = "persistent://acme/orders/t"
N = "/api/v1/tenants/acme/namespaces/orders/topics"
S = f"{N}/t/subscriptions"
MOVES: list[tuple[str, dict[str, Any] | None]] = [
    ("clear", None),
    ("skip", {"entries": 2}),
    ("reset", {"position": "latest"}),
    ("reset", {"publish_time_ms": 2**50 // 100}),
    ("expire", {"message_id": "1:1"}),
]


@pytest.fixture
def olga(world: World, caller: Callable[[str], Caller]) -> Caller:
    """The owner of a topic with a subscription and four messages."""
    world.broker.add(TOPIC, "s")
    world.broker.publish(TOPIC, *(b"%d" % number for number in range(4)))
    return caller("olga")


def records(action: str) -> int:
    return AuditRecord.unscoped.filter(action=action).count()


def test_a_subscription_is_created_listed_and_deleted(world: World, olga: Caller) -> None:
    made = olga("POST", S, {"name": "new", "position": "earliest", "properties": {"team": "a"}})
    assert made.status_code == 201, made.content
    assert made.json()["action"] == "subscription.create"
    listed = olga("GET", f"{S}?limit=1").json()
    assert [row["name"] for row in listed["items"]] == ["new"] and listed["next"] == "new"
    assert [row["name"] for row in olga("GET", f"{S}?after=new").json()["items"]] == ["s"]
    shown = olga("GET", f"{S}/new").json()
    assert (shown["backlog_entries"], shown["properties"]) == (4, {"team": "a"})
    assert olga("GET", f"{S}/s").json()["backlog_entries"] == 4
    assert olga("POST", S, {"name": "new"}).status_code == 409
    assert olga("DELETE", f"{S}/new").status_code == 204
    assert olga("GET", f"{S}/new").status_code == 404
    assert (records("subscription.create"), records("subscription.delete")) == (2, 1)  # the conflict, too: with its status


@pytest.mark.parametrize(("move", "body"), MOVES)
def test_a_dry_run_says_where_the_cursor_would_stand_and_leaves_it(
    world: World, olga: Caller, move: str, body: dict[str, Any] | None
) -> None:
    first = olga("GET", f"{S}/s/messages?limit=1").json()["items"][0]["message_id"]
    if body and "message_id" in body:
        body = {"message_id": first}
    before = world.broker.mark_delete(TOPIC, "s")
    told = olga("POST", f"{S}/s/{move}?dry_run=true", body)
    assert told.status_code == 200, told.content
    assert told.json()["dry_run"] is True and told.json()["affected"]["backlog_entries"] == 4
    assert world.broker.mark_delete(TOPIC, "s") == before
    done = olga("POST", f"{S}/s/{move}", body).json()
    assert done == {**told.json(), "dry_run": False}
    assert world.broker.mark_delete(TOPIC, "s") == done["moved"][0]["after"] != before
    assert AuditRecord.unscoped.filter(resource=f"{TOPIC}/s").count() == 2  # the peek and the change, not the dry run


def test_a_move_is_undone(world: World, olga: Caller, caller: Callable[[str], Caller]) -> None:
    stood = world.broker.mark_delete(TOPIC, "s")
    olga("POST", f"{S}/s/clear")
    (move,) = olga("GET", f"{S}/s/moves").json()["items"]
    assert (move["action"], move["before"], move["undoable"]) == ("subscription.clear_backlog", {TOPIC: stood}, True)
    undo = f"{S}/s/moves/{move['id']}/undo"
    assert [caller("tom")(method, path).status_code for method, path in (("GET", f"{S}/s/moves"), ("POST", undo))] == [403, 403]
    told = olga("POST", f"{undo}?dry_run=true").json()
    assert told["affected"]["again_entries"] == 4 and world.broker.backlog(TOPIC) == 0 and not records("subscription.undo")
    assert olga("POST", undo).json() == {**told, "dry_run": False}
    assert world.broker.mark_delete(TOPIC, "s") == stood and records("subscription.undo") == 1
    assert olga("POST", f"{S}/s/moves/999999/undo").status_code == 404
    assert olga("POST", f"{S}/s/moves/last/undo").status_code == 400


def test_clients_are_disconnected(world: World, olga: Caller, caller: Callable[[str], Caller]) -> None:
    world.broker.connect_consumer(TOPIC, "s")
    world.broker.connect_producer(TOPIC)
    path = f"{N}/t/disconnect"
    assert caller("tom")("POST", path, {}).status_code == 403
    assert olga("POST", f"{path}?dry_run=true", {}).json()["affected"] == {"producers": 1, "consumers": 1}
    assert olga("POST", path, {"kind": "consumer"}).json()["affected"] == {"producers": 0, "consumers": 1}
    assert olga("POST", path, {"kind": "consumer"}).status_code == 404
    assert olga("POST", path, {"kind": "reader"}).status_code == 400
    assert AuditRecord.unscoped.get(action="client.disconnect").after == {"kind": "consumer", "producers": 0, "consumers": 1}


def test_a_dry_run_of_a_deletion_is_refused_as_the_deletion_is(world: World, olga: Caller) -> None:
    world.broker.connect_consumer(TOPIC, "s")
    for path in (f"{S}/s", f"{N}/t"):
        refused = [olga("DELETE", f"{path}{query}") for query in ("?dry_run=true", "")]
        assert [answer.status_code for answer in refused] == [412, 412]
        assert refused[0].json()["detail"] == refused[1].json()["detail"]
        assert olga("DELETE", f"{path}?dry_run=true&force=true").status_code == 200
    assert world.broker.topics[TOPIC] == {"s"}


def test_what_a_move_cannot_mean_is_refused(olga: Caller) -> None:
    for move, body in (("reset", {}), ("reset", {"position": "latest", "message_id": "1:1"}), ("expire", {}), ("skip", {})):
        assert olga("POST", f"{S}/s/{move}", body).status_code == 400, (move, body)
    unknown = olga("POST", f"{S}/s/skip", {"entries": 1, "count": 1})
    assert unknown.status_code == 400 and "use entries" in unknown.json()["detail"]
    assert "use dry_run" in olga("POST", f"{S}/s/clear?dryRun=true").json()["detail"]
    assert olga("POST", f"{S}/other/clear").status_code == 404
    assert olga("POST", S, {"name": "n", "position": "middle"}).status_code == 400


def test_a_partitioned_topic_moves_on_each_partition(world: World, olga: Caller) -> None:
    world.broker.add_partitioned("persistent://acme/orders/p", 2, "s")
    for index in range(2):
        world.broker.publish(f"persistent://acme/orders/p-partition-{index}", b"x")
    moved = olga("POST", f"{N}/p/subscriptions/s/clear?dry_run=true").json()
    assert len(moved["moved"]) == 2
    counts = {"backlog_entries": 2, "skipped_entries": 2, "again_entries": 0, "consumers": 0, "topics": 2}
    assert moved["affected"] == counts
    assert world.broker.backlog("persistent://acme/orders/p-partition-0") == 1
    assert olga("POST", f"{N}/p/subscriptions/s/skip", {"entries": 1}).status_code == 400


def test_properties_are_replaced(olga: Caller) -> None:
    assert olga("PUT", f"{S}/s/properties", {"properties": {"a": "b"}}).json() == {"properties": {"a": "b"}}
    assert olga("GET", f"{S}/s/properties").json() == {"properties": {"a": "b"}}


def test_a_backlog_is_counted_and_read_without_being_consumed(world: World, olga: Caller) -> None:
    backlog = olga("GET", f"{S}/s/backlog").json()
    assert (backlog["entries"], backlog["messages"], backlog["complete"]) == (4, 4, True)
    page = olga("GET", f"{S}/s/messages?limit=3").json()
    rest = olga("GET", f"{S}/s/messages?limit=3&after={page['next']}").json()
    assert [message["payload_base64"] for message in page["items"] + rest["items"]] == ["MA==", "MQ==", "Mg==", "Mw=="]
    assert rest["next"] is None
    assert world.broker.backlog(TOPIC) == 4
    assert records("subscription.peek") == 2


def test_a_key_without_a_grant_creates_and_deletes_nothing(world: World, olga: Caller) -> None:
    key = Caller(world.token("app@acme"))
    assert key("POST", S, {"name": "n"}).status_code == 404  # nobody told it that there is anything
    assert olga("PUT", f"{N}/t/permissions/app@acme", {"actions": ["consume"]}).status_code == 200
    assert key("POST", S, {"name": "n"}).status_code == 201
    assert olga("GET", f"{N}/t/permissions").json()["permissions"] == {"app@acme": ["consume"]}
    assert olga("DELETE", f"{N}/t/permissions/app@acme?dry_run=true").json()["affected"] == {"grants": 1}
    assert olga("DELETE", f"{N}/t/permissions/app@acme").status_code == 204
    assert key("DELETE", f"{S}/n").status_code == 404
