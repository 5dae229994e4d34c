"""Steps of tests of consumers against a broker that a test moves by hand."""

from __future__ import annotations

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.messaging.client.scripted import ScriptedBroker
from tests.support.clients.batches import single
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/new"


def deliver(
    broker: ScriptedBroker,
    entry_id: int,
    *,
    batch_size: int = 0,
    left: int = 0,
    times: int = 0,
    cut: bool = False,
    encrypted: bool = False,
    chunk: int = -1,
    consumer: int = -1,
) -> None:
    """A message, or a batch, of which the bits of `left` (0: all) are still to be acknowledged. `cut`: it cannot be read. `chunk`:
    of three. `consumer`: the number of the one that gets it, in the order in which they were opened."""
    connection, subscribe = broker.consumers[consumer]
    metadata = pb.Metadata(producer_name="p", sequence_id=entry_id, publish_time=1)
    if encrypted:
        metadata.encryption_param = bytes(12)
        metadata.encryption_keys.add(key="k", value=b"v" * 10)
    if chunk >= 0:
        metadata.uuid, metadata.chunk_id, metadata.num_chunks_from_msg, metadata.total_chunk_msg_size = "u", chunk, 3, 3
    if batch_size:
        metadata.num_messages_in_batch = batch_size
    stored = frames.build_send(1, entry_id, metadata, b"".join(single(b"%d" % index) for index in range(batch_size)) or b"x")
    stored = stored[8 + int.from_bytes(stored[4:8], "big") :]
    stored = stored[:-1] + b"?" if cut else stored
    message_id = pb.MessageId(ledger_id=1, entry_id=entry_id)
    message = pb.Message(consumer_id=subscribe.consumer_id, message_id=message_id, redelivery_count=times)
    if left:
        message.ack_set.append(left)
    framed = frames.command(pb.Command.MESSAGE, message=message)
    connection.say((len(framed) - 4 + len(stored)).to_bytes(4, "big") + framed[4:] + stored)


def answer(broker: ScriptedBroker, index: int) -> None:
    ack = broker.acks[index]
    response = pb.AckResponse(consumer_id=ack.consumer_id, request_id=ack.request_id)
    broker.connection.say(frames.command(pb.Command.ACK_RESPONSE, ack_response=response))


async def reopened(broker: ScriptedBroker, consumers: int) -> None:
    """The wait before is over."""

    def again() -> bool:
        broker.time.move(1.0)
        return len(broker.consumers) == consumers

    await eventually(again)


def with_topics(broker: ScriptedBroker, topic: str) -> tuple[list[str], set[str]]:
    """Two topics that a pattern matches, and those that are deleted. An unloaded one that is not persistent is made again."""
    names = [f"{topic}-{number}" for number in range(2)]
    gone: set[str] = set()

    def topics(command: pb.Command) -> bytes:
        answer = pb.GetTopicsOfNamespaceResponse(request_id=command.get_topics_of_namespace.request_id)
        answer.topics.extend(name for name in names if name not in gone)
        return frames.command(pb.Command.GET_TOPICS_OF_NAMESPACE_RESPONSE, get_topics_of_namespace_response=answer)

    def subscribed(command: pb.Command) -> bytes:
        asked = command.subscribe
        broker.consumers.append((broker.connection, asked))
        if asked.force_topic_creation:
            gone.discard(asked.topic)
        number = asked.request_id
        return frames.error(number, 11, "deleted") if asked.topic in gone else frames.success(number)

    broker.answers[pb.Command.GET_TOPICS_OF_NAMESPACE] = topics
    broker.answers[pb.Command.SUBSCRIBE] = subscribed
    return names, gone


def close_consumer(broker: ScriptedBroker, number: int = -1) -> None:
    """As when its topic is unloaded or deleted."""
    connection, subscribe = broker.consumers[number]
    close = pb.CloseConsumer(consumer_id=subscribe.consumer_id, request_id=0)
    connection.say(frames.command(pb.Command.CLOSE_CONSUMER, close_consumer=close))
