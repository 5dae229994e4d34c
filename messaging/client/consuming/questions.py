"""Questions of a consumer to the broker, which change nothing: asked again where the consumer is opened anew meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from messaging.client.backoff import Backoff
from messaging.client.timing import Timing
from messaging.client.wire.connection import Connection, Request
from messaging.errors import ConsumerNotFound, MagnetarError, PlatformError
from messaging.protocol import pulsar_pb2 as pb


async def answer_to(
    kind: pb.Command.Type,
    field: str,
    request: Request,
    connected: Callable[[], Awaitable[Connection]],
    timing: Timing,
    timeout_s: float,
) -> pb.Command:
    """Where the topic moves to another broker, the one that had it closes the consumer, and may do so before it reads the question.
    Raises what it was refused with last, after `timeout_s`, and what `connected` raises."""
    backoff = Backoff(timing.random, max_s=1.0)
    until_s = timing.now_s() + timeout_s
    while True:
        connection = await connected()
        try:
            return await connection.request(kind, field, request)
        except MagnetarError as error:
            delay_s = backoff.next_delay_s()
            passing = isinstance(error, PlatformError | ConsumerNotFound)
            if not passing or timing.now_s() + delay_s > until_s:
                raise
        await timing.sleep(delay_s)
