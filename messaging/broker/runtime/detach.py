"""Detaches what a connection or a WebSocket that is gone had open: at once where that is little, else a slice in each turn of the
event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from messaging.broker.core.turns.turn_budget import SLICE_COST
from messaging.broker.runtime.turn_loop import TurnLoop, Worker

DETACH_COST = 160  # of one producer or consumer: those of a Key_Shared subscription have a hundred points on a ring
DETACHED_AT_ONCE = SLICE_COST // DETACH_COST

Detach = Callable[[], None]


class DetachWorker:
    """A `Worker`. What is not detached yet counts as gone already: its sink says that the peer is not alive."""

    def __init__(self, turn_loop: TurnLoop[Worker], tenant: str, detaches: Iterable[Detach]) -> None:
        self._turn_loop = turn_loop
        self._tenant = tenant
        self._left = iter(detaches)

    def begin(self) -> None:
        tenant = self.work()
        if tenant is not None:
            self._turn_loop.wait(tenant, self)

    def work(self) -> str | None:
        count = 0
        for detach in islice(self._left, DETACHED_AT_ONCE):
            try:
                detach()
            except Exception as error:  # of one of them: the others leave, too
                self._turn_loop.failed(error)
            count += 1
        self._turn_loop.turns.left -= count * DETACH_COST
        return self._tenant if count == DETACHED_AT_ONCE else None


DetachAll = Callable[[Sequence[Detach]], None]


def detach_all(turn_loop: TurnLoop[Worker], tenant: str, detaches: Sequence[Detach]) -> None:
    if detaches:
        DetachWorker(turn_loop, tenant, detaches).begin()
