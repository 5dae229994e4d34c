"""The dead letters of a whole tenant over our API: in groups, one by one, redriven together; and nobody else's."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.adminrpc.methods import REDRIVE_SCAN
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.errors import NotReady, QuotaExceeded
from tenants import actions as tenant_actions
from tenants.actions.rate import rates
from tenants.models import AuditRecord
from tests.tenants.world import Caller, World
from workers.redrive import letters
from workers.redrive.models import RedriveJob

AT = "/api/v1/tenants/acme/dead-letters"
N = "persistent://acme/orders"
PLACED, BILLS = f"{N}/placed-s-DLQ", f"{N}/bills-app-DLQ"


@pytest.fixture(autouse=True)
def dead(world: World) -> None:
    """Seven of two topics, and one topic that another tenant has."""
    for topic in (f"{N}/placed", f"{N}/bills", PLACED, BILLS, f"{N}/not-dead", "persistent://other/things/t-s-DLQ"):
        world.broker.add(topic)
    for number in range(4):
        said = {"REAL_TOPIC": f"{N}/placed", "REAL_SUBSCRIPTION": "s", "DEAD_LETTER_REASON": ("late", "odd")[number % 2]}
        world.broker.publish_messages(PLACED, OutgoingMessage(b"p", said, key=f"k{number}"))
    for _ in range(3):
        said = {"REAL_TOPIC": f"{N}/bills", "REAL_SUBSCRIPTION": "app", "error": "no such customer"}
        world.broker.publish_messages(BILLS, OutgoingMessage(b"b", said))
    world.broker.publish("persistent://other/things/t-s-DLQ", b"theirs")


def test_who_looks_through_them_for_a_key_is_in_the_audit_log(caller: Any) -> None:
    """Also through a topic that holds no dead letters: all that may be redriven can be looked through."""
    for query in ("?by=property&property=error", "/messages?key=k1", f"/messages?topic={N}/not-dead&key=ada"):
        assert caller("olga")("GET", AT + query).status_code == 200
        record = AuditRecord.unscoped.latest("id")
        assert (record.action, record.role, record.resource) == ("message.browse", "user:olga", "acme"), query
        assert record.after == {"query": query.partition("?")[2]}


def counted(answer: Any) -> dict[str, int]:
    assert answer.status_code == 200, answer.content
    return {group["value"]: group["messages"] for group in answer.json()["groups"]}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("by=reason", {"": 3, "late": 2, "odd": 2}),
        ("by=topic", {PLACED: 4, BILLS: 3}),
        ("by=origin_subscription", {"s": 4, "app": 3}),
        ("by=property&property=error", {"": 4, "no such customer": 3}),
        (f"by=outcome&topic={PLACED}", {f"to {N}/placed": 4}),
        ("by=topic&reason=odd", {PLACED: 2}),
        ("by=key&key=k1", {"k1": 1}),
        ("by=topic&until_ms=1", {}),
    ],
)
def test_they_are_counted_in_groups(caller: Any, query: str, expected: dict[str, int]) -> None:
    answer = caller("olga")("GET", f"{AT}?{query}")
    assert counted(answer) == expected
    assert answer.json()["next"] is None and answer.json()["topics"] == answer.json()["topics_done"]


def test_what_one_request_did_not_look_at_the_next_ones_do(world: World, caller: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world.broker.publish(PLACED, *[b"x"] * 30)
    monkeypatch.setattr(letters, "FOUND_AT_ONCE", 5)
    monkeypatch.setattr(letters, "SECONDS_MAX", 0)
    sums: dict[str, int] = {}
    after, requests = "", 0
    while True:
        page = caller("olga")("GET", f"{AT}?by=topic&after={after}").json()
        for group in page["groups"]:
            sums[group["value"]] = sums.get(group["value"], 0) + group["messages"]
        requests += 1
        if page["next"] is None:
            break
        after = page["next"]
    assert sums == {PLACED: 34, BILLS: 3} and requests == 8


def test_they_are_listed_with_where_each_would_go(caller: Any) -> None:
    owner = caller("olga")
    first = owner("GET", f"{AT}/messages?limit=5").json()
    rest = owner("GET", f"{AT}/messages?limit=5&after={first['next']}").json()
    assert (len(first["items"]), len(rest["items"]), rest["next"]) == (5, 2, None)
    found = [*first["items"], *rest["items"]]
    assert [each["destination"] for each in found] == [f"{N}/bills"] * 3 + [f"{N}/placed"] * 4
    assert len({(each["topic"], each["message_id"]) for each in found}) == 7


def test_a_partitioned_topic_is_looked_through_partition_by_partition(world: World, caller: Any) -> None:
    world.broker.add_partitioned(f"{N}/many-s-DLQ", 3)
    for number in range(3):
        world.broker.publish(f"{N}/many-s-DLQ-partition-{number}", b"x", b"y")
    answer = caller("olga")("GET", f"{AT}?by=topic&topic={N}/many-s-DLQ")
    assert counted(answer) == {f"{N}/many-s-DLQ-partition-{number}": 2 for number in range(3)}
    started = caller("olga")("POST", f"{AT}/redrives", {"topics": [f"{N}/many-s-DLQ"]}).json()["started"]
    assert [job["topic"][-1] for job in started] == ["0", "1", "2"]


def test_a_redrive_of_all_starts_one_for_each_topic_that_holds_what_matches(world: World, caller: Any) -> None:
    owner = caller("olga")
    body = {"reason": "odd", "rate": 10, "idempotency_key": "tonight"}
    answer = owner("POST", f"{AT}/redrives", body)
    assert answer.status_code == 201, answer.content
    (job,) = answer.json()["started"]
    assert (job["topic"], job["target"], job["filter"]["reason"], job["rate"]) == (PLACED, "", "odd", 10)
    assert owner("POST", f"{AT}/redrives", body).json()["started"][0]["id"] == job["id"], "the same key, the same job"
    assert [each["id"] for each in owner("GET", f"{AT}/redrives").json()["items"]] == [job["id"]]
    recorded = AuditRecord.unscoped.filter(action="redrive.start", resource=PLACED)
    assert [each.tenant for each in recorded] == ["acme"]
    everything = owner("POST", f"{AT}/redrives", {}).json()
    assert sorted(each["topic"] for each in everything["started"]) == [BILLS, PLACED] and not everything["not_started"]


def test_an_edit_is_of_one_message_and_of_who_may_read_and_publish_it(world: World, caller: Any) -> None:
    owner = caller("olga")
    found = owner("GET", f"{AT}/messages?topic={PLACED}").json()["items"]
    body = {"topics": [PLACED], "message_ids": [found[0]["message_id"]], "edit": {"text": "mended", "key": "k"}}
    assert owner("POST", f"{AT}/redrives", {**body, "message_ids": [each["message_id"] for each in found]}).json()["not_started"]
    assert owner("POST", f"{AT}/redrives", body | {"topics": []}).status_code == 400
    (job,) = owner("POST", f"{AT}/redrives", body).json()["started"]
    assert RedriveJob.unscoped.get(id=job["id"]).edit["properties"] == {}
    (record,) = AuditRecord.unscoped.filter(action="redrive.start", resource=PLACED)
    assert record.after is not None and record.after["edit"] is True and "mended" not in str(record.after)
    tenant_actions.set_member(world.actor("olga"), "acme", "tom", "operator")
    refused = caller("tom")("POST", f"{AT}/redrives", body).json()
    assert not refused["started"] and "message_read" in refused["not_started"][0]["why"]
    assert caller("tom")("POST", f"{AT}/redrives", {"topics": [PLACED]}).json()["started"], "without an edit they may"


def test_an_edit_is_kept_no_longer_than_it_is_needed_and_asked_for_again_is_the_same(caller: Any) -> None:
    owner = caller("olga")
    (found, *_) = owner("GET", f"{AT}/messages?topic={PLACED}").json()["items"]
    body = {"message_ids": [found["message_id"]], "edit": {"text": "mended"}, "idempotency_key": "once"}
    at = "/api/v1/tenants/acme/namespaces/orders/topics/placed-s-DLQ/redrives"
    job = owner("POST", at, body).json()["id"]
    assert owner("DELETE", f"{at}/{job}").status_code == 200
    assert RedriveJob.unscoped.get(id=job).edit == {}
    assert owner("POST", at, body).json()["id"] == job
    del body["edit"]
    assert owner("POST", at, body).status_code == 409, "it is another redrive"


def test_a_tenant_starts_no_more_redrives_than_it_may_make_changes(caller: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def used_up(who: str, now_ms: int) -> None:
        raise QuotaExceeded("too many changes")

    monkeypatch.setattr(rates, "take", used_up)
    answer = caller("olga")("POST", f"{AT}/redrives", {}).json()
    assert not answer["started"] and {each["why"] for each in answer["not_started"]} == {"too many changes"}
    assert not RedriveJob.unscoped.exists()


def test_a_topic_that_cannot_be_read_is_left_out_and_said(world: World, caller: Any) -> None:
    def away(request: Any) -> None:
        if request.topic == BILLS:
            raise NotReady("its broker is away")

    world.line.divert(REDRIVE_SCAN, away)
    answer = caller("olga")("GET", f"{AT}?by=topic")
    assert counted(answer) == {PLACED: 4}
    assert answer.json()["left_out"] == [{"topic": BILLS, "why": "its broker is away"}]


def test_who_may_not_redrive_sees_and_moves_nothing(world: World, caller: Any) -> None:
    for method, path in (("GET", AT), ("GET", f"{AT}/messages"), ("GET", f"{AT}/redrives"), ("POST", f"{AT}/redrives")):
        assert caller("sam")(method, path).status_code == 404, path
        assert caller("tom")(method, path, {} if method == "POST" else None).status_code == 403, path
        assert Caller()(method, path).status_code == 401, path
    abroad = {"topics": ["persistent://other/things/t-s-DLQ"]}
    assert caller("olga")("POST", f"{AT}/redrives", abroad).status_code == 400
    assert caller("tom")("POST", f"{AT}/redrives", {"topics": [PLACED]}).status_code == 403
    assert not RedriveJob.unscoped.exists()


@pytest.mark.parametrize("query", ["by=colour", "by=property", "from_ms=x", "after=x", "topic=placed", "target=a//b"])
def test_what_makes_no_sense_is_refused(caller: Any, query: str) -> None:
    assert caller("olga")("GET", f"{AT}?{query}").status_code == 400
