"""What the listeners of the web process count: each is entered here when it is made, and read by `/metrics`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from messaging.metrics import Sample

sources: list[Callable[[], Iterator[Sample]]] = []


def samples() -> Iterator[Sample]:
    for source in sources:
        yield from source()
