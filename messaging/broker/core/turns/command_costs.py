"""The cost of each command of the binary protocol for the event loop, so that clients that send many expensive ones wait. Pure.

One unit is the cost of a SEND on the fast path, about half a microsecond. For a command that a task carries out, the table has
all work of the event loop for it. The cost of a dispatch is not included, because dispatches are bounded separately. On top of
its row a command costs in proportion to its size, because it is decoded as a whole.
"""

from __future__ import annotations

from messaging.protocol import pulsar_pb2 as pb

COMMAND_BYTES_A_UNIT = 32  # many small fields are decoded at about 60 MB/s
ID_BYTES_A_UNIT = 3  # of lists of message ids: each is processed separately, 500 of them in 600 microseconds
SEND_BYTES_A_UNIT = 2048  # checksum and copy run at several GB/s
BLOCK = 24  # a block to append: one producer's entries of one read
ACK_RUN = 16  # acknowledgements of one consumer in one ledger
OWN_HEAD = 12  # an entry that is sent with a redelivery count or an ack set, in 6 microseconds
CHUNK = 40  # an entry of a block with chunks: what was sent of its message is noted, in 20 microseconds
REDELIVERED_A_UNIT = 128  # messages that a consumer held and gives back
UNKNOWN = 40  # decoded and refused

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
    pb.Command.WATCH_TOPIC_LIST: 500,
    pb.Command.WATCH_TOPIC_LIST_CLOSE: 60,
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
