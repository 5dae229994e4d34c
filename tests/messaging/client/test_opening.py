"""Opening a producer: what it waits for, what it raises, and keys."""

from __future__ import annotations

import asyncio
import logging

import pytest

from messaging.client import errors
from messaging.client.failures import Refused
from tests.messaging.client.scripted import ScriptedBroker
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/new"


@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        (Refused(401, "authentication_failed", "the token is not valid"), errors.AuthenticationFailed),
        (Refused(403, "not_authorized", "role lacks produce"), errors.NotAuthorized),
        (Refused(404, "topic_not_found", "create it first"), errors.TopicNotFound),
        (Refused(409, "producer_busy", "choose another name"), errors.ProducerBusy),
    ],
)
async def test_opening_raises_what_the_broker_said(broker: ScriptedBroker, refused: Refused, kind: type[Exception]) -> None:
    broker.script = [refused]
    async with broker.client() as client:
        with pytest.raises(kind, match=refused.message):
            await client.producer(TOPIC)
        assert broker.attempts == 1


async def test_opening_waits_for_a_broker_that_is_starting(broker: ScriptedBroker) -> None:
    broker.script = [ConnectionRefusedError("refused")] * 3 + [Refused(503, "not_ready", "starting"), None]
    async with broker.client() as client, client.producer(TOPIC):
        assert broker.sleeps == [0.05, 0.1, 0.2, 0.4]


async def test_opening_gives_up_in_time(broker: ScriptedBroker) -> None:
    broker.script = [ConnectionRefusedError("refused")] * 100
    async with broker.client(open_timeout_s=5) as client:
        with pytest.raises(errors.NotReady, match="within 5 s: refused"):
            await client.producer(TOPIC)
        assert sum(broker.sleeps) <= 5


async def test_when_the_broker_forbids_it_later_everything_waiting_hears_of_it(broker: ScriptedBroker) -> None:
    broker.script = [None, Refused(401, "authentication_failed", "the key was revoked")]
    async with broker.client() as client, client.producer(TOPIC, pending_max=1) as producer:
        pending = producer.send_nowait(b"a")
        entering = asyncio.create_task(producer.send(b"b"))
        await eventually(lambda: broker.channels[0].sent)
        broker.channels[0].lose(1008, "revoked")
        for waiting in (pending, entering):
            with pytest.raises(errors.Closed, match="the key was revoked") as caught:
                await waiting
            assert isinstance(caught.value.__cause__, errors.AuthenticationFailed)
        with pytest.raises(errors.Closed, match="the key was revoked"):
            await producer.send(b"c")


async def test_a_key_function_is_asked_at_each_connection(broker: ScriptedBroker) -> None:
    keys = iter(["first", "second"])

    async def key() -> str:
        return next(keys)

    async with broker.client(key=key) as client, client.producer(TOPIC):
        broker.channels[0].lose()
        second = await broker.channel(1)
        assert [channel.headers["Authorization"] for channel in (broker.channels[0], second)] == ["Bearer first", "Bearer second"]


async def test_a_key_function_that_fails_is_heard_of(broker: ScriptedBroker, caplog: pytest.LogCaptureFixture) -> None:
    def key() -> str:
        raise RuntimeError("the vault is closed")

    async with broker.client(key=key) as client:
        with pytest.raises(errors.MagnetarError, match="the vault is closed"):
            await client.producer(TOPIC)


async def test_a_cancelled_opening_leaves_nothing_behind(broker: ScriptedBroker) -> None:
    broker.held = True
    broker.script = [ConnectionRefusedError("refused")] * 100

    async def open_() -> None:
        await client.producer(TOPIC)

    async with broker.client() as client:
        opening = asyncio.create_task(open_())
        await eventually(lambda: broker.sleeps)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("magnetar")]


async def test_the_key_is_in_no_log_and_no_text(broker: ScriptedBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    broker.script = [ConnectionRefusedError("refused"), None]
    async with broker.client(key="secret-key") as client, client.producer(TOPIC) as producer:
        broker.channels[0].lose()
        await broker.channel(1)
        assert "secret-key" not in repr(client) + repr(producer)
    assert caplog.records and "secret-key" not in caplog.text


async def test_a_key_over_an_open_wire_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    from messaging.client import connect

    connect("ws://broker.example:8081", "key")
    assert "unencrypted" in caplog.text
    caplog.clear()
    connect("ws://127.0.0.1:8081", "key"), connect("wss://broker.example", "key"), connect("ws://broker.example")
    assert not caplog.records


@pytest.mark.parametrize("url", ["http://broker:8081", "broker:8081", "ws://", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    from messaging.client import connect

    with pytest.raises(errors.InvalidValue, match="ws://host:8081"):
        connect(url)


async def test_a_bad_topic_name_is_refused_before_any_connection(broker: ScriptedBroker) -> None:
    async with broker.client() as client:
        with pytest.raises(errors.InvalidName):
            client.producer("persistent://acme")
    assert broker.attempts == 0
