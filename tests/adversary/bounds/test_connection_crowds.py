"""Peers that open many connections and never use them do not keep others out."""

from __future__ import annotations

from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import RawClient
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld


async def tried(world: BrokerWorld, key: str) -> tuple[RawClient, str]:
    """A client that says who it is, and the name of the broker's answer."""
    client = await world.client()
    client.say(pb.Command.CONNECT, client_version="raw", auth_method_name="token", auth_data=world.token(key).encode())
    return client, (await client.next()).name


async def test_silent_sockets_do_not_keep_the_superuser_out(make_world: MakeWorld) -> None:
    """50 sockets that never said anything held all places for the ten seconds of a handshake, again and again."""
    world = await make_world(connections_max=10, connections_unauthenticated_max=10)
    for _ in range(50):
        await world.client()
    superuser = await world.connected()
    assert await superuser.quiet() == []
    shares = world.service.peers.shares
    assert shares.unauthenticated <= 10
    assert world.service.peers.refused["made room for others"] >= 40
    await eventually(lambda: len(world.service.peers.connections) <= 11)


async def test_a_key_without_grants_does_not_keep_others_out(make_world: MakeWorld) -> None:
    """A key that may do nothing opened connections until nobody else, not even the superuser, could."""
    world = await make_world(connections_max=32)
    answers = [(await tried(world, "stranger"))[1] for _ in range(40)]
    assert answers.count("CONNECTED") == 10, "a third of what is not reserved"
    assert set(answers[10:]) == {"ERROR"}
    for _ in range(5):
        assert (await tried(world, "owner"))[1] == "CONNECTED"
    for _ in range(5):
        assert (await tried(world, "superuser"))[1] == "CONNECTED"
    assert world.service.peers.refused["too many connections"] == 30


async def test_an_anonymous_crowd_leaves_room_for_keys(make_world: MakeWorld) -> None:
    world = await make_world(connections_max=32)
    answers = []
    for _ in range(40):
        client = await world.client()
        client.say(pb.Command.CONNECT, client_version="raw")
        answers.append((await client.next()).name)
    assert answers.count("CONNECTED") == 15
    assert (await tried(world, "writer"))[1] == "CONNECTED"
