"""The live feed as a browser gets it: snapshot, updates, gaps, a broker that goes away, and who is let in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from django.test import Client
from django.utils import timezone

from admin_ui import routing
from admin_ui.consumers import TOO_MANY, NamespaceLiveConsumer
from admin_ui.live.hub import LiveHub
from admin_ui.live.rights import RightsWatch, records_after
from admin_ui.live.state import LiveState, apply
from admin_ui.live.watchers import Watchers
from tenants.access import actor_of_user
from tenants.actions import RoleOfTeam, add_team_member, remove_team_member, set_member, set_team
from tenants.http.threads import in_database_thread
from tenants.models import Membership, User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.people import ORDERS, PLACED, populate
from tests.admin_ui.scripted_live import ScriptedLive, live_row
from tests.admin_ui.websocket import Socket
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
PATH = "/live/tenants/acme/namespaces/orders"
Connect = Callable[..., Any]


@pytest.fixture
def live(broker: ConsoleBroker, monkeypatch: pytest.MonkeyPatch) -> ScriptedLive:
    """What the pollers see. The hub is a new one with a short interval, made on the test's loop."""
    hubs: list[LiveHub] = []

    def hub() -> LiveHub:
        if not hubs:
            hubs.append(LiveHub(broker.live.poll, interval_s=0.005, now_ms=lambda: 42))
        return hubs[0]

    watches: list[RightsWatch] = []

    def watch() -> RightsWatch:
        if not watches:
            watches.append(RightsWatch(in_database_thread(records_after), interval_s=0.01))
        return watches[0]

    monkeypatch.setattr(NamespaceLiveConsumer, "hub", staticmethod(hub))
    monkeypatch.setattr(NamespaceLiveConsumer, "rights", staticmethod(watch))
    return broker.live


@pytest.fixture
async def connect(live: ScriptedLive, broker: ConsoleBroker) -> AsyncIterator[Connect]:
    await sync_to_async(populate)(broker)
    application = AuthMiddlewareStack(URLRouter(routing.websocket_urlpatterns))
    opened: list[Socket] = []

    async def make(username: str, path: str = PATH) -> Socket:
        headers = []
        if username:
            client = Client()
            await sync_to_async(client.force_login)(await User.objects.aget(username=username))
            headers = [(b"cookie", f"magnetar_session={client.cookies['magnetar_session'].value}".encode())]
        socket = Socket(application, path, headers)
        assert (await socket.connect())["type"] == "websocket.accept"
        opened.append(socket)
        return socket

    yield make
    for socket in opened:
        await socket.disconnect()


async def test_a_page_that_is_left_leaves_no_task_waiting(connect: Connect) -> None:
    """Python would report each as an error once it is destroyed."""

    def waiting() -> int:
        return sum("Event.wait" in repr(task.get_coro()) for task in asyncio.all_tasks())

    before = waiting()
    socket = await connect("owner")
    await eventually(lambda: waiting() == before + 1)
    await socket.disconnect()
    await eventually(lambda: waiting() == before)


async def test_a_snapshot_first_then_updates_that_lead_to_fresh_state(connect: Connect, live: ScriptedLive) -> None:
    socket = await connect("owner")
    first = await socket.receive()
    assert first["type"] == "snapshot" and first["rows"][PLACED]["messages_in"] == 40
    state = apply(None, first)
    live.rows[ORDERS] = [live_row(PLACED, messages_in=41), live_row(f"{PLACED}-new")]

    async def arrived() -> bool:
        nonlocal state
        message = await socket.receive()
        assert message["type"] == "update"
        state = apply(state, message)
        return state.rows.keys() == {PLACED, f"{PLACED}-new"}

    await eventually(arrived)
    fresh = LiveState.from_answer(live.answer(ORDERS))
    assert state.rows == fresh.rows


async def test_one_person_takes_neither_all_feeds_nor_the_connections_of_pages(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member of one tenant opened 560 feeds: nobody, the superuser included, reached console or REST until they were closed."""
    watchers = Watchers(watchers_max=4, person_max=2)
    monkeypatch.setattr(NamespaceLiveConsumer, "watchers", staticmethod(lambda: watchers))
    first, second, third = [await connect("owner") for _ in range(3)]
    assert await third.closed() == TOO_MANY
    await third.disconnect()
    assert (await first.receive())["type"] == (await second.receive())["type"] == "snapshot"
    member = await connect("teammate")
    assert (await member.receive())["type"] == "snapshot"
    await connect("teammate")
    beyond = Socket(AuthMiddlewareStack(URLRouter(routing.websocket_urlpatterns)), PATH)
    assert (await beyond.connect())["type"] == "websocket.close"  # not even accepted
    await beyond.disconnect()
    await first.disconnect()
    again = await connect("owner")
    assert (await again.receive())["type"] == "snapshot"


async def test_a_reader_that_noticed_a_gap_gets_a_snapshot(connect: Connect) -> None:
    socket = await connect("owner")
    await socket.receive()
    await socket.receive()
    await socket.send(json.dumps({"type": "resync"}))

    async def snapshot() -> bool:
        return (await socket.receive())["type"] == "snapshot"

    await eventually(snapshot)


async def test_a_broker_that_restarted_means_a_snapshot(connect: Connect, live: ScriptedLive) -> None:
    socket = await connect("owner")
    await socket.receive()
    live.boot_epoch, live.sequence = 8, 0

    async def of_the_new_boot() -> bool:
        message = await socket.receive()
        return message["type"] == "snapshot" and message["epoch"] == 8

    await eventually(of_the_new_boot)


async def test_a_broker_that_is_away_is_said_to_be(connect: Connect, live: ScriptedLive) -> None:
    live.away = "the broker does not answer"
    socket = await connect("owner")
    assert await socket.receive() == {"type": "away", "why": "the broker does not answer", "since_ms": 42}
    live.away = ""

    async def back() -> bool:
        return (await socket.receive())["type"] == "snapshot"

    await eventually(back)


async def test_one_topic_alone(connect: Connect, live: ScriptedLive) -> None:
    live.rows[ORDERS] = [live_row(PLACED), live_row(f"{PLACED}-partition-0"), live_row("persistent://acme/orders/other")]
    socket = await connect("owner", f"{PATH}?topic={PLACED}")
    assert (await socket.receive())["rows"].keys() == {PLACED, f"{PLACED}-partition-0"}


async def test_the_topics_that_a_page_names(connect: Connect, live: ScriptedLive) -> None:
    live.rows[ORDERS] = [live_row(PLACED), live_row("persistent://acme/orders/other"), live_row("persistent://acme/orders/third")]
    socket = await connect("owner", f"{PATH}?watch=1")
    await socket.send(json.dumps({"type": "watch", "topics": ["placed", "third"]}))
    assert (await socket.receive())["rows"].keys() == {PLACED, "persistent://acme/orders/third"}


@pytest.mark.parametrize("topics", [[], ["x"] * 101, [7], None, "placed", ["../other/placed"], ["a/b/c"], [""]])
async def test_what_is_no_list_of_topics_of_the_namespace_ends_the_feed(
    connect: Connect, live: ScriptedLive, topics: object
) -> None:
    socket = await connect("owner", f"{PATH}?watch=1")
    await socket.send(json.dumps({"type": "watch", "topics": topics}))
    assert await socket.closed() == 1003
    assert live.asked == {}


async def test_nobody_left_nothing_polled(connect: Connect, live: ScriptedLive) -> None:
    one, other = await connect("owner"), await connect("teammate")
    await one.receive()
    await other.receive()
    hub = NamespaceLiveConsumer.hub()
    assert hub.namespaces == [ORDERS]
    await one.disconnect()
    assert hub.namespaces == [ORDERS]
    await other.disconnect()
    await eventually(lambda: hub.namespaces == [])


async def test_a_new_password_ends_live_feeds_of_sessions_that_began_with_the_former_one(
    connect: Connect, live: ScriptedLive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NamespaceLiveConsumer, "check_again_s", 0.0)
    socket = await connect("owner")
    await socket.receive()
    owner = await User.objects.aget(username="owner")
    owner.set_password("another-lantern-77")
    await owner.asave()
    assert await socket.closed() == 4401


@pytest.mark.parametrize(("person", "code"), [("", 4401), ("stranger", 4404)])
async def test_who_is_not_let_in(person: str, code: int, connect: Connect, live: ScriptedLive) -> None:
    socket = await connect(person)
    assert await socket.closed() == code
    assert live.asked == {}


async def test_a_namespace_that_does_not_exist_looks_like_one_of_somebody_else(connect: Connect) -> None:
    for path in ("/live/tenants/acme/namespaces/nowhere", "/live/tenants/globex/namespaces/edge"):
        assert await (await connect("owner", path)).closed() == 4404


async def test_what_is_taken_away_ends_the_feed(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NamespaceLiveConsumer, "check_again_s", 0)
    socket = await connect("teammate")
    assert (await socket.receive())["type"] == "snapshot"
    await Membership.unscoped.filter(user__username="teammate").adelete()

    assert await socket.closed() == 4404


async def test_a_membership_that_ends_by_itself_ends_the_feed_then(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """No record says so at that moment, and a contractor's page went on for ten seconds."""
    monkeypatch.setattr(NamespaceLiveConsumer, "check_again_s", 600.0)
    ends = timezone.now() + timedelta(seconds=1)
    await Membership.unscoped.filter(user__username="teammate").aupdate(expires_at=ends)
    assert await (await connect("teammate")).closed() == 4404
    assert timezone.now() >= ends


async def test_a_change_that_is_recorded_ends_the_feed_at_once(connect: Connect) -> None:
    """Long before the feed looks by itself."""
    socket = await connect("teammate")
    assert (await socket.receive())["type"] == "snapshot"
    owner = await sync_to_async(lambda: actor_of_user(User.objects.get(username="owner")))()
    await sync_to_async(set_team)(owner, "acme", "readers", [RoleOfTeam("viewer")])
    await sync_to_async(add_team_member)(owner, "acme", "readers", "teammate")
    await sync_to_async(set_member)(owner, "acme", "teammate", "billing")
    await socket.receive()  # through the team they still may
    await sync_to_async(remove_team_member)(owner, "acme", "readers", "teammate")
    assert await socket.closed() == 4404


async def test_signing_out_ends_the_feed(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.contrib.sessions.models import Session

    monkeypatch.setattr(NamespaceLiveConsumer, "check_again_s", 0)
    socket = await connect("owner")
    await socket.receive()
    await Session.objects.all().adelete()

    assert await socket.closed() == 4401


@pytest.mark.parametrize("text", ["{", "x" * 2000])
async def test_nonsense_ends_the_connection(text: str, connect: Connect) -> None:
    socket = await connect("owner")
    await socket.receive()
    await socket.send(text)

    assert await socket.closed() == 1003


async def test_messages_that_we_do_not_know_are_passed_over(connect: Connect) -> None:
    socket = await connect("owner")
    for text in ("[]", "17", '{"type": "something new"}'):
        await socket.send(text)
    assert (await socket.receive())["type"] in ("snapshot", "update")


@pytest.mark.parametrize(
    ("origin", "accepted"), [("https://elsewhere.example", False), ("null", False), ("http://127.0.0.1:9", True), (None, True)]
)
async def test_a_page_of_another_site_gets_no_feed(origin: str | None, accepted: bool, connect: Connect) -> None:
    """The whole application, guard included: a browser sends our cookie along with such a handshake, so the origin decides."""
    from controlplane.asgi import application

    client = Client()
    await sync_to_async(client.force_login)(await User.objects.aget(username="owner"))
    cookie = f"magnetar_session={client.cookies['magnetar_session'].value}"
    headers = [(b"host", b"127.0.0.1:8080"), (b"cookie", cookie.encode())]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    socket = Socket(application, PATH, headers)
    assert (await socket.connect())["type"] == ("websocket.accept" if accepted else "websocket.close")
    if accepted:
        assert (await socket.receive())["type"] == "snapshot"
        await socket.disconnect()
