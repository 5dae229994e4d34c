"""A key that signs tokens leaked: once it is retired, nothing that it signed opens anything or stays open."""

from __future__ import annotations

from messaging.identity import signing_keys
from messaging.protocol import pulsar_pb2 as pb
from tests.support.worlds.broker_world import BrokerWorld


async def test_connections_of_a_retired_signing_key_end_and_others_stay(world: BrokerWorld) -> None:
    service = world.service
    leaked = signing_keys.signing_key_id(service.settings)
    stolen_token = world.token("superuser")
    thief = await world.connected("superuser")
    signing_keys.rotate(service.settings)
    owner = await world.connected("superuser")  # the world signs a token for each client: this one with the new key
    signing_keys.retire(service.settings, leaked)
    service.peers.check_signing_keys(service.access.verifier, service.now_ms() + 60_000)
    await thief.gone()
    assert service.peers.refused["signing key retired"] == 1
    owner.say(pb.Command.PING)
    await owner.expect("PONG")
    late = await world.client()
    late.say(pb.Command.CONNECT, client_version="raw", auth_method_name="token", auth_data=stolen_token.encode())
    (answer,) = await late.gone()
    assert answer.body.error == pb.AuthenticationError
