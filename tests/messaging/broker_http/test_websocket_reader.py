"""Readers over a WebSocket."""

from __future__ import annotations

from tests.messaging.broker_http.addresses import READER, TOPIC, publish
from tests.support.brokers.http_edge import Edge, receive_json, send_json
from tests.support.waiting import eventually


async def test_a_reader_starts_where_it_is_told(edge: Edge) -> None:
    ids = await publish(edge, "AQ==", "Ag==", "Aw==")
    for start, expected in (("earliest", ids), (ids[0].replace("=", "%3D"), ids[1:])):
        async with edge.connect(f"{READER}?messageId={start}") as reader:
            for message_id in expected:
                message = await receive_json(reader)
                assert (message["messageId"], message["redeliveryCount"]) == (message_id, 0)
    async with edge.connect(READER) as reader:
        [latest] = await publish(edge, "BA==")
        assert (await receive_json(reader))["messageId"] == latest
    await eventually(lambda: not edge.topics[TOPIC].subscriptions.table)


async def test_any_command_of_a_reader_makes_room_for_one_more(edge: Edge) -> None:
    await publish(edge, *["AQ=="] * 3)
    async with edge.connect(READER + "?messageId=earliest&receiverQueueSize=1") as reader:
        await receive_json(reader)
        for text in ("{}", '{"messageId": "CAEQAA=="}'):
            await reader.send(text)
            await receive_json(reader)
        await send_json(reader, type="isEndOfTopic")
        assert await receive_json(reader) == {"endOfTopic": False}
        await eventually(lambda: len(edge.acknowledged(TOPIC, next(iter(edge.topics[TOPIC].subscriptions.table.values())))) == 3)
