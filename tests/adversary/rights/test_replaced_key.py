"""A key that was replaced: when the overlap is over, what was opened with it before does not stay open."""

from __future__ import annotations

import time

from messaging.identity import issue_token
from messaging.protocol import pulsar_pb2 as pb
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
STATE = {"role": "writer@acme", "tenant": "acme", "revoked": False}
OVERLAP_MS = 600_000


class Ends:
    def __init__(self) -> None:
        self.errors: list[BaseException | None] = []

    def deliver(self, messages: object) -> None: ...

    def closed(self, error: BaseException | None) -> None:
        self.errors.append(error)

    def end_of_topic(self) -> None: ...


async def test_connections_of_a_replaced_key_end_with_the_overlap_and_others_stay(world: BrokerWorld) -> None:
    service = world.service
    former, other = await world.connected("writer"), await world.connected("owner")
    ends = Ends()
    principal = await service.authenticate(world.token("writer"), local=True)
    await world.sessions.open_producer(principal, TOPIC, None, ends)
    ends_ms = service.now_ms() + OVERLAP_MS
    await world.feed(("key", "writer", {**STATE, "expires_ms": ends_ms}))
    service.peers.end_expired_keys(ends_ms - 1)
    for client in (former, other):
        client.say(pb.Command.PING)
        await client.expect("PONG")
    assert ends.errors == []
    service.peers.end_expired_keys(ends_ms)
    await former.gone()
    assert service.peers.refused["token expired"] == 1
    assert [str(error) for error in ends.errors] == ["the key has expired: use the one that replaced it"]
    other.say(pb.Command.PING)
    await other.expect("PONG")


async def test_a_client_that_can_is_asked_for_the_new_key(world: BrokerWorld) -> None:
    service = world.service
    client = await world.client()
    client.say(
        pb.Command.CONNECT,
        client_version="raw",
        protocol_version=20,
        auth_method_name="token",
        auth_data=world.token("writer").encode(),
        feature_flags=pb.FeatureFlags(supports_auth_refresh=True),
    )
    await client.expect("CONNECTED")
    await world.feed(("key", "writer", {**STATE, "expires_ms": 1}), ("key", "writer-2", STATE))
    service.peers.end_expired_keys(service.now_ms())
    await client.expect("AUTH_CHALLENGE")
    token = issue_token(service.settings, "writer@acme", "writer-2", int(time.time()))
    client.say(
        pb.Command.AUTH_RESPONSE,
        response=pb.AuthData(auth_method_name="token", auth_data=token.encode()),
    )
    await client.producer(TOPIC)
    assert service.peers.refused["token expired"] == 0


async def test_who_comes_during_the_overlap_leaves_at_its_end(world: BrokerWorld) -> None:
    ends_ms = world.service.now_ms() + OVERLAP_MS
    await world.feed(("key", "writer", {**STATE, "expires_ms": ends_ms}))
    assert (await world.service.authenticate(world.token("writer"), local=True)).expires_ms == ends_ms
