"""What clients meet at a broker that stops, until its ports are closed: nothing that it would have to close again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from messaging.errors import NotReady
from messaging.protocol.names import parse_topic
from messaging.storage.meta_store import TopicRecord
from tests.support.brokers.running_broker import running_broker
from tests.support.waiting import eventually

NAME = parse_topic("persistent://public/default/t")
STOPS = NotReady("the broker is stopping")


async def test_no_topic_is_loaded_once_all_are_closed(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.service.open_topic(NAME)
        await broker.service.topics.close_all(STOPS)
        for again in (NAME, parse_topic("persistent://public/default/another"), parse_topic("non-persistent://public/default/t")):
            with pytest.raises(NotReady, match="is stopping"):
                await broker.service.open_topic(again)
        assert not broker.service.topics.loaded


async def test_what_is_being_loaded_meanwhile_is_closed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(tmp_path) as broker:
        topics, go_on, asked = broker.service.topics, asyncio.Event(), asyncio.Event()
        get_topic = topics.meta.get_topic

        async def held(name: str) -> TopicRecord | None:
            asked.set()
            await go_on.wait()
            return await get_topic(name)

        monkeypatch.setattr(topics.meta, "get_topic", held)
        opening = asyncio.create_task(broker.service.open_topic(NAME))
        await asked.wait()
        closing = asyncio.create_task(topics.close_all(STOPS))
        done, _ = await asyncio.wait([closing], timeout=0.05)
        assert not done, "it waits for what is being loaded"
        go_on.set()
        await closing
        await asyncio.wait([opening])
        assert not topics.loaded


async def test_who_connects_to_a_broker_that_stops_is_sent_away(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        broker.service.peers.end_all()
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()
        await eventually(lambda: not broker.service.peers.connections)
        assert broker.service.peers.refused["the broker is stopping"] == 1
