"""The two ends that matter: peers that say what they were told and pass over every answer, and the canary that must be served."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import websockets

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.adversary.hostile.binary_frames import Conversation
from tests.support.clients.raw_client import Closed, RawClient, send_frame

SERVED_S = 30.0  # whoever waits longer for an answer is not served


class NotServed(AssertionError):
    pass


class _Peer(asyncio.Protocol):
    """Counts the answers by their type, and wakes whoever waits for some."""

    def __init__(self) -> None:
        self.answers: Counter[int] = Counter()
        self.gone = False
        self._news = asyncio.Event()
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        at = 0
        while len(data) - at >= 10 and len(data) - at >= (size := 4 + int.from_bytes(data[at : at + 4], "big")):
            self.answers[data[at + 9]] += 1
            at += size
        self._rest = data[at:]
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        self._news.set()

    async def hears(self, count: int, *kinds: int) -> bool:
        """Whether so many answers of these types came before the broker ended the connection."""
        async with asyncio.timeout(SERVED_S):
            while sum(self.answers[kind] for kind in kinds) < count and not self.gone:
                self._news.clear()
                await self._news.wait()
        return not self.gone


async def speak(address: tuple[str, int], conversation: Conversation) -> bool:
    """Whether the connection was still open at the end. Raises `NotServed` where it is open and the broker does not answer."""
    try:
        transport, peer = await asyncio.get_running_loop().create_connection(_Peer, *address)
    except OSError as error:
        raise NotServed(f"the broker takes no connection: {error}") from None
    opening = conversation.opening
    try:
        if opening:  # nothing else is taken before its answers
            transport.write(opening[0])
            await peer.hears(1, pb.Command.CONNECTED)
            transport.write(b"".join(opening[1:]))
            await peer.hears(len(opening) - 1, pb.Command.PRODUCER_SUCCESS, pb.Command.ERROR)
        transport.write(b"".join(conversation.frames))
        if conversation.ends:  # half a frame, perhaps, of which the broker waits for the rest
            _say_no_more(transport)
        else:
            transport.write(frames.PING)
        return await peer.hears(1, pb.Command.PONG) and not conversation.ends
    except TimeoutError:
        raise NotServed(f"{len(conversation.frames)} frames were not answered in {SERVED_S:.0f} s: {peer.answers}") from None
    finally:
        transport.abort()


def _say_no_more(transport: asyncio.Transport) -> None:
    try:
        transport.write_eof()
    except OSError:  # the broker ended it first
        pass


async def speak_web(url: str, path: str, texts: list[str]) -> bool:
    """The same on a WebSocket. There is no PING of ours in JSON, so that only the end is waited for."""
    try:
        async with websockets.connect(
            f"{url}{path}", proxy=None, open_timeout=SERVED_S, close_timeout=5, max_size=None
        ) as connection:
            reading = asyncio.ensure_future(_discard(connection))
            try:
                for text in texts:
                    await asyncio.wait_for(connection.send(text), SERVED_S)
                await asyncio.wait_for(await connection.ping(), SERVED_S)
                return True
            finally:
                reading.cancel()
    except (websockets.WebSocketException, OSError, UnicodeEncodeError):
        return False
    except TimeoutError:
        raise NotServed(f"{path} was not served in {SERVED_S:.0f} s") from None


async def _discard(connection: Any) -> None:
    try:
        async for _ in connection:
            pass
    except websockets.WebSocketException:
        pass


class Canary:
    """An innocent client of another tenant. Each song is one message published, received and acknowledged with an answer."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self.songs = 0

    @classmethod
    async def hatch(cls, port: int, token: str, topic: str) -> Canary:
        client = await RawClient.open(port)
        await client.connect(token)
        await client.producer(topic)
        await client.subscribe(topic, permits=1, sub_type=pb.Subscribe.Exclusive)
        return cls(client)

    async def sing(self) -> None:
        client = self._client
        try:
            client.write(send_frame(self.songs, b"song %d" % self.songs))
            got = {answer.name: answer for answer in (await client.next(SERVED_S), await client.next(SERVED_S))}
            assert set(got) == {"SEND_RECEIPT", "MESSAGE"}, f"instead of a receipt and a message came {sorted(got)}"
            assert got["MESSAGE"].text == b"song %d" % self.songs
            message_id = got["MESSAGE"].body.message_id
            client.say(pb.Command.ACK, consumer_id=1, ack_type=pb.Ack.Individual, message_id=[message_id], request_id=self.songs)
            answer = await client.next(SERVED_S)
            assert answer.name == "ACK_RESPONSE" and not answer.body.HasField("error"), answer.command
            client.say(pb.Command.FLOW, consumer_id=1, message_permits=1)
        except (Closed, AssertionError) as error:
            raise NotServed(f"the canary sang {self.songs} songs, then: {error!r}") from None
        self.songs += 1

    async def close(self) -> None:
        await self._client.close()


async def use(port: int, token: str, topic: str) -> None:
    """Publishes to a topic and receives what was published, after everything that is in it. Raises `NotServed`."""
    client = await RawClient.open(port)
    try:
        await client.connect(token)
        await client.subscribe(topic, "canary", permits=1, sub_type=pb.Subscribe.Exclusive, initial_position=pb.Subscribe.Latest)
        await client.producer(topic)
        client.write(send_frame(0, b"use"))
        got = {(await client.next(SERVED_S)).name, (await client.next(SERVED_S)).name}
        assert got == {"SEND_RECEIPT", "MESSAGE"}, f"instead of a receipt and a message came {sorted(got)}"
    except (Closed, AssertionError) as error:
        raise NotServed(f"topic {topic} cannot be used: {error!r}") from None
    finally:
        await client.close()
