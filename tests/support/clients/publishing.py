"""What tests of producers over a raw connection share."""

from __future__ import annotations

from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
TOPIC = "persistent://acme/orders/t"


async def producing(world: BrokerWorld, **fields: object) -> RawClient:
    client = await world.connected("owner")
    await client.producer(TOPIC, **fields)  # type: ignore[arg-type]
    return client


def damaged(sequence_id: int) -> bytes:
    frame = bytearray(send_frame(sequence_id, b"payload"))
    frame[-1] ^= 1
    return bytes(frame)


async def receipts(client: RawClient, count: int) -> list[tuple[int, int]]:
    ids = []
    for _ in range(count):
        receipt = await client.expect("SEND_RECEIPT")
        ids.append((receipt.producer_id, receipt.sequence_id))
    return ids
