"""Answers that are made while they are sent, for as long as whoever asked may have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from django.http import StreamingHttpResponse

from tenants.http.threads import in_request_thread


class PiecewiseResponse(StreamingHttpResponse):
    """Takes the next piece when the one before was sent, in the thread of the request. Django would gather all of them first.

    `require_still` is called before each piece is sent, and raises where whoever asked may have no more, by
    `tenants.http.authentication.actor_now`: the answer breaks off there."""

    def __init__(self, pieces: Iterator[Any], require_still: Callable[[], object], content_type: str) -> None:
        super().__init__(_while_allowed(pieces, require_still), content_type=content_type)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: Iterator[bytes] = iter(self)
        while (piece := await in_request_thread(lambda: next(pieces, None))()) is not None:
            yield piece


def _while_allowed(pieces: Iterator[Any], require_still: Callable[[], object]) -> Iterator[Any]:
    for piece in pieces:
        require_still()
        yield piece
