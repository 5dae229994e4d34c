"""Points of history that wait to be taken, in bounded memory. Where there is no room, the tenant with most gives up its oldest,
and it is noted that nothing is known of that time. Pure."""

from __future__ import annotations

from collections import deque
from itertools import islice

import msgspec

from messaging.adminrpc.history import HistoryPoint, HistorySpan
from messaging.broker.runtime.problems.tenant_counts import TenantCounts

POINTS_MAX = 40_000  # of all tenants: about 20 MB
SPANS_MAX = 1_000  # of tenants that lost something, and of times that were covered
BATCH_MAX = 2_000  # points
COVERED, LOST, BEHIND = "covered", "lost", "behind"


class WaitingHistory(msgspec.Struct):
    """All that a buffer holds. `number`: of the last batch; the first `taken` points of each tenant and `taken_spans` are of it."""

    number: int
    points: list[HistoryPoint]
    spans: list[HistorySpan]
    lost: list[HistorySpan]
    taken: dict[str, int]
    taken_spans: list[HistorySpan]


class HistoryBuffer:
    def __init__(self, started_ms: int, *, points_max: int = POINTS_MAX) -> None:
        """Batches are numbered from `started_ms` on: a later start of the process does not take the numbers of this one for its
        own."""
        self._points_max = points_max
        self._points: dict[str, deque[HistoryPoint]] = {}  # by tenant uid; never empty
        self._counts = TenantCounts()
        self._spans: list[HistorySpan] = []  # covered, in order
        self._lost: dict[str, HistorySpan] = {}
        self.behind: dict[str, int] = {}  # tenant uid -> from when on points of it are still to come
        self._number = started_ms
        self._taken: dict[str, int] = {}  # of the last batch: how many of each tenant
        self._taken_spans: list[HistorySpan] = []

    def __len__(self) -> int:
        return self._counts.total

    def add(self, point: HistoryPoint) -> None:
        uid = point.tenant_uid
        if self._counts.total >= self._points_max:
            self._give_up()
        self._points.setdefault(uid, deque()).append(point)
        self._counts.add(uid, 1)

    def _give_up(self) -> None:
        """An oldest point of the tenant that has most."""
        uid, _ = self._counts.largest()
        point = self._points[uid][0]
        self._remove_first(uid)
        taken = self._taken.get(uid, 0)
        if taken:  # it is in the batch that was sent, and may be stored; what follows it is not confirmed by that
            self._taken[uid] = taken - 1
        lost = self._lost.get(uid)
        from_ms, until_ms = (point.from_ms, point.until_ms) if lost is None else (lost.from_ms, lost.until_ms)
        if lost is not None or len(self._lost) < SPANS_MAX:
            self._lost[uid] = HistorySpan(LOST, uid, min(from_ms, point.from_ms), max(until_ms, point.until_ms))

    def _remove_first(self, uid: str) -> None:
        points = self._points[uid]
        points.popleft()
        if not points:
            del self._points[uid]
        self._counts.add(uid, -1)

    def close(self) -> WaitingHistory:
        """What waits; nobody can take it any more."""
        points = [point for of_tenant in self._points.values() for point in of_tenant]
        waiting = WaitingHistory(self._number, points, self._spans, [*self._lost.values()], self._taken, self._taken_spans)
        self._points, self._counts, self._spans, self._lost = {}, TenantCounts(), [], {}
        self._taken, self._taken_spans = {}, []
        return waiting

    def take_up(self, kept: WaitingHistory) -> None:
        """What an earlier run of the broker held when it stopped, before anything is added here."""
        for point in kept.points:
            self._points.setdefault(point.tenant_uid, deque()).append(point)
            self._counts.add(point.tenant_uid, 1)
        self._spans, self._lost = kept.spans, {span.tenant_uid: span for span in kept.lost}
        self._number, self._taken, self._taken_spans = kept.number, kept.taken, kept.taken_spans

    def covered(self, from_ms: int, until_ms: int) -> None:
        """Of all tenants: everything that happened then is in points that were added, but for what `behind` says."""
        last = self._spans[-1] if self._spans else None
        if last is not None and last.until_ms == from_ms:
            self._spans[-1] = HistorySpan(COVERED, "", last.from_ms, until_ms)
        else:
            self._spans.append(HistorySpan(COVERED, "", from_ms, until_ms))
            del self._spans[:-SPANS_MAX]

    def take(self, acknowledged: int = 0) -> tuple[int, list[HistoryPoint], list[HistorySpan]]:
        """The next batch: its number, points, and what is known with them. `acknowledged`: the number of the one before, once it
        is stored; without it that comes again, with the same number if nothing was added or lost."""
        if acknowledged == self._number:
            for uid, count in self._taken.items():
                for _ in range(count):
                    self._remove_first(uid)
            for span in self._taken_spans:
                self._confirm(span)
            self._number += 1
        elif self._taken or self._taken_spans:  # it may be stored, or not: whoever stores it knows the number
            points = [point for uid, count in self._taken.items() for point in islice(self._points[uid], count)]
            return self._number, points, self._taken_spans
        else:
            self._number += 1
        self._taken, points = {}, []
        for uid, waiting in self._points.items():
            some = list(islice(waiting, BATCH_MAX - len(points)))
            if some:
                self._taken[uid] = len(some)
                points += some
        self._taken_spans = []
        if len(points) == self._counts.total:
            behind = [HistorySpan(BEHIND, uid, from_ms, from_ms) for uid, from_ms in self.behind.items()]
            self._taken_spans = [*self._lost.values(), *self._spans, *(behind if self._spans else [])]
        return self._number, points, self._taken_spans

    def _confirm(self, span: HistorySpan) -> None:
        if span.kind == LOST and self._lost.get(span.tenant_uid) == span:
            del self._lost[span.tenant_uid]
        elif span.kind == COVERED:
            for index, known in enumerate(self._spans):
                if known == span:
                    del self._spans[index]
                    break
                if known.from_ms == span.from_ms and known.until_ms > span.until_ms:  # it was continued meanwhile
                    self._spans[index] = HistorySpan(COVERED, "", span.until_ms, known.until_ms)
                    break
