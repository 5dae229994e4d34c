"""When a token ends, and that it is renewed before."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from messaging import client as magnetar
from messaging.client.wire.tokens import expires_s, renewal_delay_s
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.messaging.client.scripted import ScriptedBroker
from tests.support.waiting import eventually

NOW_S = 1_700_000_000.0  # of the scripted broker


def token(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.signature"


def test_a_token_is_renewed_a_tenth_of_its_time_before_its_end_or_a_minute() -> None:
    assert renewal_delay_s(token(exp=100), 0.0) == 90.0
    assert renewal_delay_s(token(exp=86_400), 0.0) == 86_340.0
    assert renewal_delay_s(token(exp=100), 100.0) is None, "the broker says that it is over"
    assert renewal_delay_s(token(sub="app"), 0.0) is None


@pytest.mark.parametrize("text", ["", "secret", "a.b.c", "a.Wzdd.c", token(exp="soon"), token(exp=None)])
def test_what_says_no_end_has_none(text: str) -> None:
    assert expires_s(text) is None


async def test_a_connection_gets_the_new_token_before_the_old_one_ends() -> None:
    broker = ScriptedBroker()
    tokens = iter([token(exp=NOW_S + 0.05), token(exp=NOW_S + 3600)])

    def key() -> str:
        return next(tokens)

    async with magnetar.connect("pulsar://127.0.0.1:1", key=key, transport=broker.connect, timing=broker.time.timing()) as client:
        await client.partitions("persistent://acme/orders/new")
        await eventually(lambda: broker.commands.count("AUTH_RESPONSE") == 1)
        assert broker.connection.open


async def test_a_function_that_fails_early_costs_nothing_while_the_old_token_is_valid() -> None:
    broker = ScriptedBroker()
    calls: list[str] = []

    def key() -> str:
        calls.append("asked")
        if len(calls) == 2:
            raise RuntimeError("the vault is closed")
        return token(exp=NOW_S + 0.05) if len(calls) == 1 else token(exp=NOW_S + 3600)

    async with magnetar.connect("pulsar://127.0.0.1:1", key=key, transport=broker.connect, timing=broker.time.timing()) as client:
        await client.partitions("persistent://acme/orders/new")
        await eventually(lambda: broker.commands.count("AUTH_RESPONSE") == 1)
        assert len(calls) == 3 and len(broker.connections) == 1 and broker.connection.open


async def test_a_function_that_fails_while_a_connection_is_opened_again_is_asked_again() -> None:
    broker = ScriptedBroker()
    broker.answers_sends = True
    calls: list[str] = []

    async def key() -> str:
        calls.append("asked")
        if len(calls) in (2, 3):
            raise OSError("the vault is closed")
        return "a key"

    async with magnetar.connect("pulsar://scripted:1", key=key, transport=broker.connect, timing=broker.time.timing()) as client:
        producer = await client.create_producer("persistent://acme/orders/new")
        broker.connection.lose()

        def again() -> bool:
            broker.time.move(1.0)
            return producer.statistics.partitions_connected == 1 and len(calls) == 4

        await eventually(again)
        await producer.send(b"x")


async def test_what_fails_for_want_of_a_key_says_so() -> None:
    """The broker asks for a new key, the function fails for good, and whatever waits for a connection runs out of time."""
    broker = ScriptedBroker()
    broken: list[bool] = []

    def key() -> str:
        if broken:
            raise OSError("the vault is closed")
        return "a key"

    options = {"transport": broker.connect, "timing": broker.time.timing(), "request_timeout_s": 0.2, "open_timeout_s": 0.05}
    async with magnetar.connect("pulsar://scripted:1", key=key, **options) as client:  # type: ignore[arg-type]
        producer = await client.create_producer("persistent://acme/orders/new", batching=False, send_timeout_s=0.2)
        consumer = await client.subscribe("persistent://acme/orders/new", "s", ack_receipts=True)
        acking = asyncio.create_task(consumer.ack(magnetar.MessageId(1, 1)))
        asking = asyncio.create_task(consumer.last_message_ids())
        sending = producer.send_nowait(b"x")
        await eventually(lambda: {"ACK", "SEND", "GET_LAST_MESSAGE_ID"} <= set(broker.commands))
        broken.append(True)
        broker.connection.say(frames.command(pb.Command.AUTH_CHALLENGE, auth_challenge=pb.AuthChallenge()))
        await eventually(lambda: not client.statistics.connections)

        def over() -> bool:
            broker.time.move(1.0)
            return sending.done() and acking.done() and asking.done()

        await eventually(over)
        seeking = asyncio.create_task(consumer.seek(0))
        await asyncio.wait([seeking])
        for failed, kind in (
            (sending, magnetar.errors.SendTimedOut),
            (acking, magnetar.errors.ConnectionLost),
            (asking, magnetar.errors.ConnectionLost),
            (seeking, magnetar.errors.ConnectionLost),
        ):
            error = failed.exception()
            assert isinstance(error, kind) and magnetar.errors.whose_fault(error) == "caller", (failed, error)


async def test_a_function_that_fails_at_first_or_gives_no_text_is_the_fault_of_the_caller() -> None:
    def failing() -> str:
        raise OSError("no such file")

    for key, why in ((failing, "OSError: no such file"), (lambda: None, "NoneType")):
        broker = ScriptedBroker()
        client = magnetar.connect("pulsar://127.0.0.1:1", key=key, transport=broker.connect)  # type: ignore[arg-type]
        async with client:
            with pytest.raises(magnetar.errors.KeyUnavailable, match=why) as caught:
                await client.create_producer("persistent://acme/orders/new")
            assert magnetar.errors.whose_fault(caught.value) == "caller"
