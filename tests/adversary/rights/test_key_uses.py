"""Which keys are in use: a connection counts in each minute in which it is open, under the key that it shows by then."""

from __future__ import annotations

import time

from messaging.identity import issue_token
from messaging.key_uses import MINUTE_MS
from messaging.protocol import pulsar_pb2 as pb
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

STATE = {"role": "writer@acme", "tenant": "acme", "revoked": False}


class Ends:
    def deliver(self, messages: object) -> None: ...

    def closed(self, error: BaseException | None) -> None: ...

    def end_of_topic(self) -> None: ...


async def test_an_open_connection_is_a_use_of_its_key_until_it_ends(world: BrokerWorld) -> None:
    service = world.service
    uses, peers = service.access.key_uses, service.peers
    client, now_ms = await world.connected("writer"), service.now_ms()
    first = uses.take()
    assert set(first.uses) == {"writer"} and 0 <= now_ms - first.uses["writer"] < 2 * MINUTE_MS
    uses.look(now_ms + 5 * MINUTE_MS, peers.keys_in_use)
    second = uses.take(first.number)
    assert second.uses == {"writer": (now_ms // MINUTE_MS + 5) * MINUTE_MS}
    await client.close()
    await eventually(lambda: not peers.keys_in_use())
    uses.look(now_ms + 6 * MINUTE_MS, peers.keys_in_use)
    assert uses.take(second.number).uses == {}


async def test_after_a_new_token_it_is_the_new_key_that_is_used(world: BrokerWorld) -> None:
    service = world.service
    await world.feed(("key", "writer-2", STATE))
    client = await world.connected("writer")
    token = issue_token(service.settings, "writer@acme", "writer-2", int(time.time()))
    client.say(pb.Command.AUTH_RESPONSE, response=pb.AuthData(auth_method_name="token", auth_data=token.encode()))
    client.say(pb.Command.PING)
    await client.expect("PONG")
    assert service.peers.keys_in_use() == {"writer-2"}


async def test_a_session_inside_the_process_is_a_use_too(world: BrokerWorld) -> None:
    """WebSockets are such sessions."""
    principal = await world.service.authenticate(world.token("writer"), local=True)
    await world.sessions.open_producer(principal, "persistent://acme/orders/t", None, Ends())
    assert world.service.peers.keys_in_use() == {"writer"}


async def test_who_is_refused_uses_nothing(world: BrokerWorld) -> None:
    await world.feed(("key", "writer", {**STATE, "revoked": True}))
    client = await world.client()
    client.say(pb.Command.CONNECT, client_version="raw", auth_method_name="token", auth_data=world.token("writer").encode())
    await client.gone()
    assert world.service.access.key_uses.take().uses == {}
