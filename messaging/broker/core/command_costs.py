"""What a command of the binary protocol costs the loop, so that whoever sends many of the dear ones waits for the others. Pure.

A unit is what one SEND costs on the fast path, about half a microsecond. Of a command that is carried out by a task the row has
what the loop does for it altogether; of one that only asks for a dispatch it has none of that, which is bounded by itself. What a
command costs beside its row depends on its size, since it is decoded whole.
"""

from __future__ import annotations

from messaging.protocol import pulsar_pb2 as pb

COMMAND_BYTES_A_UNIT = 32  # many small fields are decoded at about 60 MB/s
ID_BYTES_A_UNIT = 3  # of commands that are lists of message ids: each is looked at by itself, and 500 of them take 600 microseconds
SEND_BYTES_A_UNIT = 2048  # checksum and copy run at some GB/s
BLOCK = 24  # one producer's part of a read: a block to append, whatever is in it
ACK_RUN = 16  # acknowledgements of one consumer in one ledger
UNKNOWN = 40  # decoded, and refused

COSTS: dict[int, int] = {
    pb.Command.SEND: 1,
    pb.Command.ACK: 40,
    pb.Command.FLOW: 12,
    pb.Command.PING: 12,
    pb.Command.PONG: 8,
    pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES: 60,
    pb.Command.CONNECT: 800,  # a signature is verified
    pb.Command.AUTH_RESPONSE: 800,
    pb.Command.LOOKUP: 250,
    pb.Command.PARTITIONED_METADATA: 350,
    pb.Command.GET_TOPICS_OF_NAMESPACE: 500,
    pb.Command.GET_SCHEMA: 200,
    pb.Command.GET_OR_CREATE_SCHEMA: 250,
    pb.Command.PRODUCER: 800,
    pb.Command.CLOSE_PRODUCER: 150,
    pb.Command.SUBSCRIBE: 1000,
    pb.Command.CLOSE_CONSUMER: 200,
    pb.Command.UNSUBSCRIBE: 600,
    pb.Command.SEEK: 1000,
    pb.Command.GET_LAST_MESSAGE_ID: 250,
    pb.Command.CONSUMER_STATS: 200,
}
LISTS_OF_IDS = frozenset({pb.Command.ACK, pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES})


def cost_of(kind: int, size_bytes: int) -> int:
    return COSTS.get(kind, UNKNOWN) + size_bytes // (ID_BYTES_A_UNIT if kind in LISTS_OF_IDS else COMMAND_BYTES_A_UNIT)
