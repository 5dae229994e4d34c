"""Tokens of other issuers at the broker: they open what their role may, and their keys rotate while clients are connected."""

from __future__ import annotations

import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from messaging.identity import signing_keys
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import RawClient
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
FIRST, SECOND = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
CLAIMS = {"iss": "https://login.acme.example", "aud": "magnetar", "sub": "orders"}


def jwk(key: ec.EllipticCurvePrivateKey, kid: str) -> dict[str, str]:
    return {**json.loads(ECAlgorithm.to_jwk(key.public_key())), "kid": kid}


def token(key: ec.EllipticCurvePrivateKey, kid: str, **claims: Any) -> str:
    given = {**CLAIMS, "exp": int(time.time()) + 600, **claims}
    return jwt.encode(given, key, "ES256", headers={"kid": kid})


def trust(world: BrokerWorld, *keys: dict[str, str], **changes: Any) -> tuple[str, str, dict[str, Any]]:
    state = {
        "tenant_uid": world.service.access.view.tenant_uid("acme"),
        "issuer": CLAIMS["iss"],
        "audience": "magnetar",
        "roles": {"orders": "writer@acme"},
        "clock_skew_s": 30,
        "keys": list(keys),
    }
    return ("issuer", "acme/corp", {**state, **changes})


async def connect(world: BrokerWorld, text: str) -> RawClient:
    client = await world.client()
    client.say(pb.Command.CONNECT, client_version="raw", protocol_version=20, auth_method_name="token", auth_data=text.encode())
    return client


async def refused(world: BrokerWorld, text: str) -> None:
    (answer,) = await (await connect(world, text)).gone()
    assert answer.body.error == pb.AuthenticationError


async def test_a_token_of_a_trusted_issuer_opens_what_its_role_may(world: BrokerWorld) -> None:
    await refused(world, token(FIRST, "k1"))
    await world.feed(trust(world, jwk(FIRST, "k1")))
    client = await connect(world, token(FIRST, "k1"))
    await client.expect("CONNECTED")
    await client.producer(TOPIC)
    for text in (
        token(SECOND, "k1"),
        token(FIRST, "k2"),
        token(FIRST, "k1", aud="elsewhere"),
        token(FIRST, "k1", sub="admin"),
        token(FIRST, "k1", exp=int(time.time()) - 60),
        token(FIRST, "k1", iss="https://evil.example"),
    ):
        await refused(world, text)


async def test_keys_rotate_while_clients_are_connected(world: BrokerWorld) -> None:
    await world.feed(trust(world, jwk(FIRST, "k1")))
    former = await connect(world, token(FIRST, "k1"))
    await former.expect("CONNECTED")
    await world.feed(trust(world, jwk(FIRST, "k1"), jwk(SECOND, "k2")))
    new = await connect(world, token(SECOND, "k2"))
    await new.expect("CONNECTED")
    own = await world.connected("writer")
    former.say(pb.Command.PING)
    await former.expect("PONG")
    await world.feed(trust(world, jwk(SECOND, "k2")))
    await former.gone()
    assert world.service.peers.refused["issuer no longer trusted"] == 1
    for client in (new, own):
        client.say(pb.Command.PING)
        await client.expect("PONG")


async def test_an_issuer_that_is_deleted_or_maps_otherwise_ends_its_connections(world: BrokerWorld) -> None:
    for change in (None, {"roles": {"orders": "other@acme"}}, {"roles": {"orders": "writer@elsewhere"}}, {"tenant_uid": "former"}):
        await world.feed(trust(world, jwk(FIRST, "k1")))
        client = await connect(world, token(FIRST, "k1"))
        await client.expect("CONNECTED")
        kind, name, state = trust(world, jwk(FIRST, "k1"), **(change or {}))
        await world.feed((kind, name, None if change is None else state))
        await client.gone()


async def test_a_new_signing_key_of_ours_ends_nobody_of_another_issuer(world: BrokerWorld) -> None:
    await world.feed(trust(world, jwk(FIRST, "k1")))
    client = await connect(world, token(FIRST, "k1"))
    await client.expect("CONNECTED")
    service = world.service
    former = signing_keys.signing_key_id(service.settings)
    signing_keys.rotate(service.settings)
    signing_keys.retire(service.settings, former)
    service.peers.check_signing_keys(service.access.verifier, service.now_ms() + 60_000)
    client.say(pb.Command.PING)
    await client.expect("PONG")
