"""Answers that are made while they are sent, for as long as whoever asked may have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from django.http import StreamingHttpResponse

from messaging.caller import current_caller
from messaging.fairness.turns import FairTurns
from tenants.http.threads import in_request_thread

PIECES_AT_ONCE = 4  # that are made, of a caller one: pages of others wait for the same processor
turns = FairTurns(PIECES_AT_ONCE, 1)


class PiecewiseResponse(StreamingHttpResponse):
    """Takes the next piece when the one before was sent, in the thread of the request and in turns of callers: a request gives
    its own turn back when its answer begins. Django would gather all of them first.

    `require_still` is called before each piece is sent, and raises where whoever asked may have no more, by
    `tenants.http.authentication.actor_now`: the answer breaks off there."""

    def __init__(self, pieces: Iterator[Any], require_still: Callable[[], object], content_type: str) -> None:
        super().__init__(_while_allowed(pieces, require_still), content_type=content_type)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: Iterator[bytes] = iter(self)
        while (piece := await _next_of(pieces)) is not None:
            yield piece


async def _next_of(pieces: Iterator[bytes]) -> bytes | None:
    async with turns.turn(current_caller().tenant):
        return await in_request_thread(lambda: next(pieces, None))()


def _while_allowed(pieces: Iterator[Any], require_still: Callable[[], object]) -> Iterator[Any]:
    for piece in pieces:
        require_still()
        yield piece
