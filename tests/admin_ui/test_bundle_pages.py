"""The bundles of a namespace in the console: who has which, splitting one and unloading one."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from messaging.adminrpc.base import Empty
from messaging.adminrpc.brokers import BrokerSeen, BrokersSeen
from messaging.adminrpc.bundles import BundleLoad, BundleLoads, BundleMoved, BundleOwner, BundleOwners, LoadsAsked
from messaging.adminrpc.methods import BROKERS_LIST, BUNDLES_LOADS, BUNDLES_MOVE, BUNDLES_OWNERS, NAMESPACES_LIVE, TOPICS_UNLOAD
from messaging.adminrpc.topics import NamespaceLive
from messaging.errors import NotAllowed, NotAuthorized, NotReady, PreconditionFailed
from messaging.policies.isolation import Isolation
from messaging.protocol.bundles import bundle_of, bundles_of, equal_bundles
from tenants.access import NotVisible, actor_of_user, platform_actor
from tenants.actions import set_custom_role, set_member
from tenants.actions.bundles import boundaries_of, split_bundle, unload_bundle
from tenants.actions.placement import set_isolation_policy
from tenants.models import AuditRecord, User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.people import ORDERS, PLACED
from tests.admin_ui.scripted_live import live_row

PAGE = f"{NAMESPACE}/bundles"
FIRST, SECOND, THIRD, FOURTH = map(str, bundles_of(equal_bundles(4)))
TOPICS = [f"persistent://acme/orders/t{number}" for number in range(12)]
IN_FIRST = [topic for topic in TOPICS if str(bundle_of(equal_bundles(4), topic)) == FIRST]
CONFIRMED = {"confirmed": "yes"}


class Fleet:
    """`owners`: of the four bundles, "" for nobody; `away`: brokers that do not renew their sessions; `silent`: that do not answer;
    `moved`: what was asked of owners."""

    def __init__(self) -> None:
        self.owners = {FIRST: "b1", SECOND: "b2", THIRD: "b3", FOURTH: ""}
        self.away, self.silent, self.draining = {"b3"}, set[str](), set[str]()
        self.movable = True
        self.asked_of = set[str]()  # namespaces
        self.moved: list[BundleMoved] = []

    def listed(self, _: object) -> BrokersSeen:
        return BrokersSeen(
            brokers=[BrokerSeen(broker_id=each, live=each not in self.away, broker_url="") for each in ("b1", "b2", "b3")]
        )

    def owned(self, _: object) -> BundleOwners:
        return BundleOwners(
            bundles=[
                BundleOwner(
                    namespace=ORDERS,
                    bundle=bundle,
                    broker_id=owner,
                    live=bool(owner) and owner not in self.away,
                    draining=bundle in self.draining,
                )
                for bundle, owner in self.owners.items()
            ]
        )

    def loads(self, asked: LoadsAsked) -> BundleLoads:
        self.asked_of.add(asked.namespace)
        if asked.broker_id in self.silent:
            raise NotReady(f"broker {asked.broker_id} does not answer: try again")
        rates = {"messages_in_per_s": 1234.0, "messages_out_per_s": 55.0, "bytes_in_per_s": 0.0, "bytes_out_per_s": 0.0}
        of_first = BundleLoad(namespace=ORDERS, bundle=FIRST, topics=7, load=1289.0, producers=3, consumers=1, **rates)
        return BundleLoads(
            broker_id=asked.broker_id,
            movable=self.movable,
            draining=asked.broker_id in self.draining,
            bundles=[of_first] if self.owners[FIRST] == asked.broker_id else [],
        )

    def move(self, asked: BundleMoved) -> Empty:
        if not self.movable:
            raise NotAllowed("bundles stay with the broker in whose log their messages lie")
        self.moved.append(asked)
        self.owners[asked.bundle] = asked.to_broker_id
        return Empty()


@pytest.fixture
def fleet(world: ConsoleBroker) -> Fleet:
    made = Fleet()
    world.divert(BROKERS_LIST, made.listed)
    world.divert(BUNDLES_OWNERS, made.owned)
    world.divert(BUNDLES_LOADS, made.loads)
    return made


@pytest.fixture
def moves(world: ConsoleBroker, fleet: Fleet) -> Fleet:
    """Where somebody is asked to move a bundle, too."""
    world.divert(BUNDLES_MOVE, fleet.move)
    return fleet


@pytest.fixture
def topics(world: ConsoleBroker) -> ConsoleBroker:
    """Twelve, of which one of the first bundle has messages."""
    assert len(IN_FIRST) > 1
    world.set_rows(ORDERS, [live_row(topic, rate_in=30.0 if topic == IN_FIRST[0] else 0.0) for topic in TOPICS])
    return world


def said(client: Client, path: str, data: dict[str, str] | None = None) -> str:
    """What the page says that it leads to."""
    answer = client.get(path, follow=True) if data is None else client.post(path, data, follow=True)
    assert answer.status_code == 200
    return unescape(answer.content.decode())


def test_it_shows_where_bundles_are_and_what_they_do(browse: Browse, fleet: Fleet) -> None:
    page = text(browse("owner"), PAGE)
    for expected in ("1,234", "b1", "not running", "no broker, until a client needs it"):
        assert expected in page, expected
    assert page.count("/split") == 4 and page.count("/unload") == 2, "not what nobody has, or a broker that does not run"
    assert page.index(FIRST) < page.index(SECOND) < page.index(THIRD)
    assert fleet.asked_of == {ORDERS}, "what other namespaces do is not asked"
    page = text(browse("owner"), PAGE, sort="-broker", q="b")
    assert page.index(THIRD) < page.index(SECOND) < page.index(FIRST) and FOURTH not in page
    assert "No bundles match." in text(browse("owner"), PAGE, q="nothing")
    fleet.silent, fleet.draining = {"b2"}, {FIRST}
    page = text(browse("owner"), PAGE)
    assert "not responding" in page and "What bundles of broker b2 do is unknown." in page and "moving away" in page


def test_it_says_that_nothing_is_known_while_no_broker_answers(browse: Browse, world: ConsoleBroker) -> None:
    world.cut()
    assert "Which broker has which bundle is unknown." in text(browse("owner"), PAGE)
    assert "not responding" in said(browse("owner"), f"{PAGE}/{FIRST}/unload")
    assert "not responding" in said(browse("owner"), f"{PAGE}/{FIRST}/split")


def test_a_bundle_is_given_to_a_broker(browse: Browse, moves: Fleet) -> None:
    client, path = browse("superuser"), f"{PAGE}/{FIRST}/unload"
    page = text(client, path)
    assert "7 topics of it are loaded at broker b1, with 3 producers and 1 consumer." in page
    assert '<option value="b2">' in page and '<option value="b1">' not in page and '<option value="b3">' not in page
    page = said(client, path, {**CONFIRMED, "owner": "b1", "to_broker": "b3"})
    assert "Broker b3 is not running, or may not have this bundle: choose another one." in page and not moves.moved
    page = said(client, f"{path}?broker=b1", {**CONFIRMED, "owner": "b1", "to_broker": "b2"})
    assert f"Bundle {FIRST} is at broker b2." in page and 'id="brokers"' in page, "back where they came from"
    assert [(each.broker_id, each.bundle, each.to_broker_id) for each in moves.moved] == [("b1", FIRST, "b2")]
    record = AuditRecord.unscoped.latest("id")
    assert (record.action, record.tenant, record.resource) == ("namespace.unload", "acme", ORDERS)
    assert (record.before, record.after) == ({"bundle": FIRST, "broker": "b1"}, {"to_broker": "b2"})


def test_who_operates_a_tenant_unloads_and_does_not_choose_the_broker(browse: Browse, moves: Fleet) -> None:
    path = f"{PAGE}/{FIRST}/unload"
    page = text(browse("owner"), path)
    assert "<select" not in page and "takes it: b2, or b1 again." in page
    assert f"Bundle {FIRST} was unloaded." in said(browse("owner"), path, {**CONFIRMED, "owner": "b1", "to_broker": "b2"})
    assert [each.to_broker_id for each in moves.moved] == [""]
    owner = actor_of_user(User.objects.get(username="owner"))
    with pytest.raises(NotAuthorized):
        unload_bundle(owner, ORDERS, SECOND, "b1")
    with pytest.raises(NotVisible):
        unload_bundle(actor_of_user(User.objects.get(username="stranger")), ORDERS, SECOND)
    assert len(moves.moved) == 1


def test_what_moved_since_the_page_was_shown_is_shown_again(browse: Browse, fleet: Fleet) -> None:
    fleet.owners[FIRST] = "b2"
    page = said(browse("superuser"), f"{PAGE}/{FIRST}/unload", {**CONFIRMED, "owner": "b1", "to_broker": ""})
    assert f"Bundle {FIRST} is at broker b2 by now, no longer at b1: look again what this does." in page
    assert (
        '<input type="hidden" name="owner" value="b2">' in page
        and not AuditRecord.unscoped.filter(action="namespace.unload").exists()
    )


def test_what_cannot_be_unloaded_is_refused_with_the_reason(browse: Browse, fleet: Fleet) -> None:
    client = browse("superuser")
    for bundle, why in (
        (FOURTH, f"No broker has bundle {FOURTH}"),
        (THIRD, f"Broker b3, which has bundle {THIRD}, is not running"),
        ("0x00000000_0x20000000", "Namespace orders has no bundle 0x00000000_0x20000000"),
        ("odd", "Namespace orders has no bundle odd"),
    ):
        page = said(client, f"{PAGE}/{bundle}/unload")
        assert why in page, page[page.index("<main") :][:2500]
        assert why in said(client, f"{PAGE}/{bundle}/unload", {**CONFIRMED, "owner": "b1", "to_broker": ""})
    assert not AuditRecord.unscoped.filter(action="namespace.unload").exists(), "nothing was done"
    fleet.draining = {FIRST}
    assert f"Bundle {FIRST} is moving away from broker b1 already" in said(client, f"{PAGE}/{FIRST}/unload")


def test_who_else_may_have_it_is_told(browse: Browse, fleet: Fleet) -> None:
    path = f"{PAGE}/{FIRST}/unload"
    set_isolation_policy(platform_actor(), "gold", Isolation(("acme/.*",), ("b1",)))
    page = text(browse("superuser"), path)
    assert "No other broker may have it, or takes bundles now: broker b1 loads it again." in page and "<select" not in page
    fleet.away = {"b2", "b3"}
    assert "There is no other broker: b1 loads it again." in text(browse("superuser"), path)
    fleet.silent = {"b1"}
    assert "What it does now is not known: broker b1 is not responding." in text(browse("superuser"), path)


def test_where_bundles_stay_their_topics_are_closed(browse: Browse, moves: Fleet, topics: ConsoleBroker) -> None:
    moves.movable = False
    page = text(browse("superuser"), f"{PAGE}/{FIRST}/unload")
    assert "It stays with broker b1, in whose log its messages are." in page and "<select" not in page
    assert "was unloaded" in said(browse("superuser"), f"{PAGE}/{FIRST}/unload", {**CONFIRMED, "owner": "b1"})
    assert {each.topic for each in topics.called(TOPICS_UNLOAD)} == set(IN_FIRST)


def test_what_is_split_while_it_is_unloaded_is_unloaded_as_it_was_shown(topics: ConsoleBroker) -> None:
    def split_then_refuse(asked: BundleMoved) -> Empty:
        split_bundle(platform_actor(), ORDERS, FIRST, "range_equally_divide")
        raise NotAllowed("bundles stay with the broker in whose log their messages lie")

    topics.divert(BUNDLES_OWNERS, Fleet().owned)
    topics.divert(BUNDLES_MOVE, split_then_refuse)
    unload_bundle(platform_actor(), ORDERS, FIRST)
    assert {each.topic for each in topics.called(TOPICS_UNLOAD)} == set(IN_FIRST)


def test_a_move_that_nobody_confirmed_is_in_the_audit_log(browse: Browse, fleet: Fleet, world: ConsoleBroker) -> None:
    def fails(_: BundleMoved) -> Empty:
        raise NotReady("the broker did not respond in time: try again in a moment")

    world.divert(BUNDLES_MOVE, fails)
    assert "did not respond" in said(browse("owner"), f"{PAGE}/{FIRST}/unload", {**CONFIRMED, "owner": "b1"})
    assert "did not respond" in str(AuditRecord.unscoped.latest("id").after)


def test_a_bundle_is_split_where_it_was_shown(browse: Browse, fleet: Fleet, topics: ConsoleBroker) -> None:
    client, path = browse("owner"), f"{PAGE}/{FIRST}/split"
    page = text(client, path)
    assert f"It has {len(IN_FIRST)} topics." in page and "Half of its messages each: " in page
    half = len(IN_FIRST) // 2
    page = said(client, path, {"way": "topic_count_equally_divide"})
    assert f"{half} topic" in page and "30 messages a second in and out" in page and "to: b2." in page
    assert len(boundaries_of(ORDERS)) == 5, "it was only shown"
    cut = re.search(r'name="hashes" value="(0x[0-9a-f]{8})"', page)
    assert cut is not None
    topics.set_rows(ORDERS, [live_row(topic) for topic in (*TOPICS, *(f"{topic}-more" for topic in TOPICS))])
    page = said(client, path, {**CONFIRMED, "way": "specified_positions_divide", "hashes": cut[1]})
    assert f"Bundle {FIRST} was split into 0x00000000_{cut[1]}, {cut[1]}_0x40000000." in page
    assert boundaries_of(ORDERS)[1] == int(cut[1], 16)
    record = AuditRecord.unscoped.get(action="namespace.split_bundle")
    assert record.role == "user:owner" and record.before == {"bundle": FIRST}
    assert "it may have been split meanwhile" in said(client, path)


def test_what_cannot_be_split_is_refused_with_the_reason(browse: Browse, fleet: Fleet, world: ConsoleBroker) -> None:
    client = browse("superuser")
    empty = next(each for each in (FIRST, SECOND, THIRD, FOURTH) if each != str(bundle_of(equal_bundles(4), PLACED)))
    path = f"{PAGE}/{empty}/split"
    assert "Half of its topics each: cuts nowhere" in text(client, path)
    assert "There is nowhere to cut it like that: it has 0 topics." in said(client, path, {"way": "topic_count_equally_divide"})
    for hashes, why in (
        ("", "Say where to cut."),
        ("odd", "odd is no hash within"),
        ("0xffffffff", "0xffffffff is no hash within"),
    ):
        assert why in said(client, path, {"way": "specified_positions_divide", "hashes": hashes})
    with pytest.raises(PreconditionFailed, match="stays whole"):
        split_bundle(platform_actor(), ORDERS, empty, "topic_count_equally_divide", must_cut=True)
    assert len(boundaries_of(ORDERS)) == 5


def test_what_a_split_leaves_where_it_is_told(browse: Browse, fleet: Fleet, topics: ConsoleBroker) -> None:
    client, middle = browse("superuser"), {"way": "range_equally_divide"}
    assert "No broker has it now: each part is placed once a client needs it." in said(client, f"{PAGE}/{FOURTH}/split", middle)
    fleet.movable = False
    assert "None can move to another broker" in said(client, f"{PAGE}/{FIRST}/split", middle)
    fleet.movable, fleet.away = True, {"b2", "b3"}
    assert "No other broker may have them, or takes bundles now." in said(client, f"{PAGE}/{FIRST}/split", middle)

    def silent(_: object) -> NamespaceLive:
        raise NotReady("b2 did not answer")

    topics.divert(NAMESPACES_LIVE, silent)
    page = text(client, f"{PAGE}/{FIRST}/split")
    assert "Half of its messages each" not in page
    assert "how much flows there is not known now" in said(client, f"{PAGE}/{FIRST}/split", middle)


def test_nobody_else_splits_or_unloads(browse: Browse, fleet: Fleet) -> None:
    page = text(browse("teammate"), PAGE)
    assert FIRST in page and "/split" not in page and "/unload" not in page
    set_custom_role(platform_actor(), "acme", "keeper", ["namespace_read", "operate"])
    set_member(platform_actor(), "acme", "stranger", "keeper")
    operates = browse("stranger")
    assert operates.get(f"{PAGE}/{FIRST}/unload").status_code == 200
    for client, paths in ((browse("teammate"), ("split", "unload")), (operates, ("split",))):
        for path in paths:
            assert client.get(f"{PAGE}/{FIRST}/{path}").status_code == 403
            assert (
                client.post(f"{PAGE}/{FIRST}/{path}", {**CONFIRMED, "owner": "b1", "way": "range_equally_divide"}).status_code
                == 403
            )
    assert len(boundaries_of(ORDERS)) == 5 and not AuditRecord.unscoped.filter(action="namespace.unload").exists()
