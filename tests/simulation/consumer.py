"""A scripted consumer: takes messages, acknowledges them in every way there is, gives them back, seeks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.simulation.client import Client, World
from tests.simulation.entries import chunk_of, texts_of
from tests.simulation.model import Chunk, Consumer, Place, Subscribed
from tests.support.clients.raw_client import Received

SEEK_S = 1.0  # after its connection was lost a seek may take effect that long


class ConsumerClient(Client):
    """Holds what it was delivered until an operation acknowledges it or gives it back."""

    def __init__(self, world: World, name: str, topic: str, subscription: str, kind: pb.Subscribe.SubType) -> None:
        self.subscription = subscription
        self.kind = kind
        self.consumer: Consumer | None = None  # as the checker knows it, while it is subscribed
        self.unacked: dict[Place, list[str]] = {}  # what was received, by entry: the texts by batch index, "" for what is done
        self.chunks: dict[Place, Chunk] = {}  # which of those are chunks
        self._requests = 1
        self._waiting: dict[int, Callable[[], None]] = {}  # what the answer to a request confirms
        self._seeking: list[Subscribed] = []  # for each request among them that seeks
        self._pings: deque[Consumer] = deque()  # each asks whether what this consumer gave back was taken back
        self._lives = 0
        super().__init__(world, name, topic)

    def _open(self) -> None:
        self.say(
            pb.Command.SUBSCRIBE,
            subscribe=pb.Subscribe(
                topic=self.topic,
                subscription=self.subscription,
                sub_type=self.kind,
                consumer_id=1,
                request_id=1,
                consumer_name=self.name,
                initial_position=pb.Subscribe.Earliest,
            ),
        )

    @property
    def subscribed(self) -> Subscribed:
        assert self.consumer is not None
        return self.consumer.subscription

    def _closed(self) -> None:
        super()._closed()
        self.unacked.clear()
        self.chunks.clear()
        if self.consumer is not None:
            self.world.checker.left(self.consumer)
            self.consumer = None

    def _lost(self) -> None:
        self._waiting.clear()
        self._pings.clear()
        seeking, self._seeking = self._seeking, []
        for subscribed in seeking:  # the broker may still carry it out
            self.world.later(SEEK_S, partial(self.world.checker.seek_ended, subscribed))
        super()._lost()

    # --- choosing

    @property
    def usable(self) -> list[Place]:
        """Without the chunks of messages that did not come whole."""
        return [place for place in self.unacked if place not in self.chunks or self._is_whole(self.chunks[place])]

    def _is_whole(self, chunk: Chunk) -> bool:
        return len(self._parts(chunk)) == chunk.chunks

    def _parts(self, chunk: Chunk) -> list[Place]:
        return [place for place in self.unacked if self.chunks.get(place) == chunk]

    def whole(self, places: list[Place]) -> list[Place]:
        """`places` and all chunks of their messages."""
        expanded: dict[Place, None] = {}
        for place in places:
            expanded.update(dict.fromkeys(self._parts(self.chunks[place]) if place in self.chunks else [place]))
        return list(expanded)

    # --- saying

    def flow(self, permits: int) -> None:
        assert self.consumer is not None
        self.world.checker.flow(self.consumer, permits)
        self.say(pb.Command.FLOW, flow=pb.Flow(consumer_id=1, message_permits=permits))

    def acknowledge(self, places: list[Place], *, answered: bool) -> None:
        """Whole entries, one by one."""
        texts = [text for place in places for text in self.unacked.pop(place) if text]
        self._ack(pb.Ack.Individual, [pb.MessageId(ledger_id=place[0], entry_id=place[1]) for place in places], texts, answered)

    def acknowledge_in_batch(self, place: Place, index: int, *, answered: bool) -> None:
        entry = self.unacked[place]
        text, entry[index] = entry[index], ""
        bits = sum(1 << at for at in range(len(entry)) if at != index)  # a set bit: not acknowledged
        if not any(entry):
            del self.unacked[place]
        message_id = pb.MessageId(ledger_id=place[0], entry_id=place[1], batch_size=len(entry), ack_set=[bits])
        self._ack(pb.Ack.Individual, [message_id], [text], answered)

    def _ack(self, kind: pb.Ack.AckType, ids: list[pb.MessageId], texts: list[str], answered: bool) -> None:
        assert self.consumer is not None
        checker, subscribed = self.world.checker, self.subscribed
        checker.ack_sent(self.consumer, texts)
        request_id = self._asking(lambda: checker.ack_confirmed(subscribed, texts)) if answered else None
        self.say(pb.Command.ACK, ack=pb.Ack(consumer_id=1, ack_type=kind, message_id=ids, request_id=request_id))

    def acknowledge_to(self, place: Place, *, answered: bool) -> None:
        assert self.consumer is not None
        checker, subscribed = self.world.checker, self.subscribed
        for earlier in [unacked for unacked in self.unacked if unacked <= place]:
            del self.unacked[earlier]
        checker.ack_to_sent(self.consumer, place)
        request_id = self._asking(lambda: checker.ack_to_confirmed(subscribed, place)) if answered else None
        ids = [pb.MessageId(ledger_id=place[0], entry_id=place[1])]
        self.say(pb.Command.ACK, ack=pb.Ack(consumer_id=1, ack_type=pb.Ack.Cumulative, message_id=ids, request_id=request_id))

    def give_back(self, places: list[Place]) -> None:
        """Asks for these entries again; for none: for all, as a subscription in order always does."""
        assert self.consumer is not None
        ids = [pb.MessageId(ledger_id=ledger_id, entry_id=entry_id) for ledger_id, entry_id in places]
        every = not places or not self.subscribed.shared
        texts = [text for place in (list(self.unacked) if every else places) for text in self.unacked.pop(place) if text]
        self.world.checker.give_back_sent(self.consumer, list(self.consumer.holds) if every else texts)
        self.say(
            pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES,
            redeliver_unacknowledged_messages=pb.RedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids),
        )
        self._pings.append(self.consumer)
        self.say(pb.Command.PING, ping=pb.Ping())  # answered when the request before it was carried out

    def seek(self, *, earliest: bool) -> None:
        checker, subscribed = self.world.checker, self.subscribed
        checker.seek_sent(subscribed)

        def ended() -> None:
            self._seeking.remove(subscribed)
            checker.seek_ended(subscribed)

        self._seeking.append(subscribed)
        request_id = self._asking(ended)
        at = (
            pb.MessageId(ledger_id=frames.NO_ID, entry_id=frames.NO_ID)
            if earliest
            else pb.MessageId(ledger_id=2**63 - 1, entry_id=2**63 - 1)
        )
        self.say(pb.Command.SEEK, seek=pb.Seek(consumer_id=1, request_id=request_id, message_id=at))

    def _asking(self, confirmed: Callable[[], None]) -> int:
        self._requests += 1
        self._waiting[self._requests] = confirmed
        return self._requests

    # --- hearing

    def _written(self, received: Received) -> None:
        checker = self.world.checker
        if received.name == "MESSAGE" and self.consumer is not None:
            place, texts = texts_of(received)
            self.world.note(f"{self.name} < {' '.join(filter(None, texts))} {place} {received.body.redelivery_count}")
            checker.delivered(self.consumer, place, [text for text in texts if text], received.body.redelivery_count)
        elif received.name == "ACK_RESPONSE":
            confirmed = self._waiting.pop(received.body.request_id)
            error = received.body.error if received.body.HasField("error") else ""
            self.world.note(f"{self.name} acknowledged {received.body.request_id} {error}")
            if received.body.HasField("error"):
                checker.count("refused acknowledgements")
            else:
                confirmed()
        elif received.name == "SUCCESS" and received.body.request_id == 1:
            keyed = self.kind == pb.Subscribe.Key_Shared
            shared = keyed or self.kind == pb.Subscribe.Shared
            name = f"{self.name}#{self._lives}"
            self.consumer = checker.subscribed(self.topic, self.subscription, name, shared=shared, keyed=keyed)
            self._lives += 1
            self.world.note(f"{self.name} subscribed")
        elif received.name == "SUCCESS" or (received.name == "ERROR" and received.body.request_id in self._waiting):
            self._waiting.pop(received.body.request_id)()
        elif received.name == "PONG" and self._pings:
            checker.give_back_done(self._pings.popleft())
        elif received.name == "ACTIVE_CONSUMER_CHANGE" and self.consumer is not None:
            checker.active_changed(self.consumer, received.body.is_active)
        elif received.name == "CLOSE_CONSUMER":
            self.world.note(f"{self.name} closed")
            if self.consumer is not None:
                checker.left(self.consumer)
                self.consumer = None
            self.ready = False

    def _received(self, received: Received) -> None:
        if received.name == "MESSAGE" and self.ready:
            place, texts = texts_of(received)
            self.unacked[place] = texts
            chunk = chunk_of(received)
            if chunk is not None:
                self.chunks[place] = chunk
        elif received.name == "SUCCESS" and received.body.request_id == 1 and self.consumer is not None:
            self.ready = True
        elif received.name == "CLOSE_CONSUMER":
            self._closed()
        super()._received(received)
