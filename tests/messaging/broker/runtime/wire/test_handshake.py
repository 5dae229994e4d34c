"""CONNECT, and what peers send instead: before authentication a peer can do nothing, and it has to authenticate soon."""

from __future__ import annotations

import time

import pytest

from messaging.identity import issue_token
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import RawClient
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

TOPIC = "persistent://public/default/t"


async def refused(client: RawClient, code: int) -> str:
    """The one answer of a refused CONNECT: an ERROR that belongs to no request, and the end."""
    (answer,) = await client.gone()
    assert answer.name == "ERROR"
    assert answer.body.request_id == frames.UNSOLICITED
    assert answer.body.error == code
    return str(answer.body.message)


async def test_connected_says_what_clients_go_by(world: BrokerWorld) -> None:
    answer = await (await world.client()).connect(world.token("owner"))
    assert answer.protocol_version == 20
    assert answer.max_message_size == 5 << 20
    assert answer.server_version.startswith("Magnetar")
    flags = [descriptor.name for descriptor, _ in answer.feature_flags.ListFields()]
    assert flags == ["supports_topic_watchers", "supports_get_partitioned_metadata_without_auto_creation"]


@pytest.mark.parametrize(("asked", "given"), [(1, 1), (19, 19), (20, 20), (99, 20)])
async def test_the_lower_protocol_version_counts(world: BrokerWorld, asked: int, given: int) -> None:
    client = await world.client()
    client.say(pb.Command.CONNECT, client_version="raw", protocol_version=asked)
    assert (await client.expect("CONNECTED")).protocol_version == given


@pytest.mark.parametrize("token", ["", "garbage", "a.b.c", "\u00e9"])
async def test_a_bad_token(world: BrokerWorld, token: str) -> None:
    client = await world.client()
    client.say(pb.Command.CONNECT, client_version="raw", auth_method_name="token", auth_data=token.encode())
    await refused(client, pb.AuthenticationError)


async def test_a_token_that_is_not_known_was_revoked_or_expired(world: BrokerWorld) -> None:
    now_s = int(time.time())
    await world.feed(("key", "reader", {"role": "reader@acme", "revoked": True}))
    for token in (
        issue_token(world.service.settings, "owner@acme", "never-heard-of", now_s),
        world.token("reader"),
        issue_token(world.service.settings, "owner@acme", "owner", now_s, now_s - 5),
    ):
        client = await world.client()
        client.say(pb.Command.CONNECT, client_version="raw", auth_method_name="token", auth_data=token.encode())
        assert token not in await refused(client, pb.AuthenticationError)


@pytest.mark.parametrize("method", ["basic", "TLS", "TOKEN"])
async def test_another_method(world: BrokerWorld, method: str) -> None:
    client = await world.client()
    client.say(pb.Command.CONNECT, client_version="raw", auth_method_name=method, auth_data=world.token("owner").encode())
    await refused(client, pb.AuthenticationError)


@pytest.mark.parametrize("method", ["", "none"])
async def test_nobody_may_come_in_on_loopback(world: BrokerWorld, method: str) -> None:
    client = await world.client()
    client.say(pb.Command.CONNECT, client_version="raw", auth_method_name=method)
    await client.expect("CONNECTED")
    await client.producer(TOPIC)


async def test_nobody_is_refused_where_anonymous_access_is_off(make_world: MakeWorld) -> None:
    client = await (await make_world(anonymous_public=False)).client()
    client.say(pb.Command.CONNECT, client_version="raw")
    await refused(client, pb.AuthenticationError)


@pytest.mark.parametrize("field", ["proxy_to_broker_url", "original_principal"])
async def test_a_proxy_cannot_speak_for_others(world: BrokerWorld, field: str) -> None:
    client = await world.client()
    client.say(
        pb.Command.CONNECT,
        client_version="raw",
        auth_method_name="token",
        auth_data=world.token("superuser").encode(),
        **{field: "admin"},
    )
    await refused(client, pb.AuthenticationError)


async def test_whoever_says_nothing_is_not_waited_for(make_world: MakeWorld) -> None:
    world = await make_world(handshake_ms=50)
    silent, pinging = await world.client(), await world.client()
    pinging.write(frames.PING)
    assert [one.name for one in await pinging.gone()] == ["PONG"]
    assert await silent.gone() == []
    assert world.service.peers.refused["no CONNECT came"] == 2


async def test_a_connection_in_time_stays(make_world: MakeWorld) -> None:
    world = await make_world(handshake_ms=100)
    client, silent = await world.connected("owner"), await world.client()
    await silent.gone()
    assert await client.quiet() == []


EARLY = [kind for kind in pb.Command.Type.values() if kind not in (pb.Command.CONNECT, pb.Command.PING, pb.Command.PONG)]


@pytest.mark.parametrize("kind", EARLY, ids=pb.Command.Type.Name)
async def test_a_command_before_connect_ends_the_connection(world: BrokerWorld, kind: pb.Command.Type) -> None:
    client = await world.client()
    body = pb.Command(type=kind).SerializeToString()
    client.write((len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body)
    assert await client.gone() == []


async def test_a_command_in_the_same_write_as_connect_is_too_early(world: BrokerWorld) -> None:
    client = await world.client()
    connect, _ = client.frame(pb.Command.CONNECT, client_version="raw")
    lookup, _ = client.frame(pb.Command.LOOKUP, topic=TOPIC)
    client.write(connect, lookup)
    assert [one.name for one in await client.gone()] in ([], ["CONNECTED"])


async def test_a_second_connect_ends_the_connection(world: BrokerWorld) -> None:
    client = await world.connected("writer")
    client.say(pb.Command.CONNECT, client_version="raw", auth_method_name="token", auth_data=world.token("superuser").encode())
    assert await client.gone() == []


async def test_two_connects_in_one_write(world: BrokerWorld) -> None:
    client = await world.client()
    one, _ = client.frame(pb.Command.CONNECT, client_version="raw")
    client.write(one, one)
    await client.gone()


async def test_a_large_frame_before_connect_is_not_read(world: BrokerWorld) -> None:
    client = await world.client()
    client.write((frames.COMMAND_BYTES_MAX + 1).to_bytes(4, "big"))
    assert await client.gone() == []


async def test_there_is_a_bound_on_connections(make_world: MakeWorld) -> None:
    world = await make_world(connections_max=2)
    first, _ = await world.connected(), await world.connected()
    third = await world.client()
    third.say(pb.Command.CONNECT, client_version="raw", auth_method_name="token", auth_data=world.token("superuser").encode())
    assert "connections_max" in await refused(third, pb.ServiceNotReady)
    await first.close()
    await eventually(lambda: len(world.service.peers.connections) == 1)
    await world.connected()


async def test_ping_is_answered_and_pong_is_not(world: BrokerWorld) -> None:
    client = await world.connected()
    client.write(frames.PONG, frames.PING, frames.PONG)
    await client.expect("PONG")
    assert await client.quiet() == []


# --- credentials that end


async def test_a_revoked_key_ends_its_connections_and_no_others(world: BrokerWorld) -> None:
    writer, reader = await world.connected("writer"), await world.connected("reader")
    await world.feed(("key", "writer", {"role": "writer@acme", "revoked": True}))
    assert await writer.gone() == []
    assert await reader.quiet() == []
    await world.feed(("key", "reader", None))
    assert await reader.gone() == []


async def test_a_token_that_expires_ends_a_client_without_refresh(world: BrokerWorld) -> None:
    now_s = int(time.time())
    client = await world.client()
    await client.connect(issue_token(world.service.settings, "owner@acme", "owner", now_s, now_s + 1))
    assert await client.gone() == []


async def test_a_client_that_can_is_asked_for_a_new_token(make_world: MakeWorld) -> None:
    world = await make_world(keep_alive_ms=200)
    now_s = int(time.time())
    short = issue_token(world.service.settings, "owner@acme", "owner", now_s, now_s + 1)

    async def asked() -> RawClient:
        client = await world.client()
        client.say(
            pb.Command.CONNECT,
            client_version="raw",
            protocol_version=20,
            auth_method_name="token",
            auth_data=short.encode(),
            feature_flags=pb.FeatureFlags(supports_auth_refresh=True),
        )
        await client.expect("CONNECTED")
        return client

    def answer(client: RawClient, key: str) -> None:
        data = pb.AuthData(auth_method_name="token", auth_data=world.token(key).encode())
        client.say(pb.Command.AUTH_RESPONSE, response=data)

    good, silent, other = await asked(), await asked(), await asked()
    for client in (good, silent, other):
        challenge = await client.expect("AUTH_CHALLENGE")
        assert challenge.challenge.auth_method_name == "token"
    answer(good, "owner")
    answer(other, "superuser")  # another role, even a mightier one, is another peer
    await refused(other, pb.AuthenticationError)
    assert await silent.gone() == []
    assert await good.quiet() == []
    await good.producer("persistent://acme/orders/t")
