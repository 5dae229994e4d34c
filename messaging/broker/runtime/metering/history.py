"""History: a point a minute of each topic and subscription where something happens, and of their namespaces and tenants.

Nothing is done for a message. A topic that becomes active gets a mark: what its counters were, and from when on. Each minute goes
around the tenants and makes points of their marked topics, a share at a time, up to `POINTS_A_MINUTE`; a tenant with more of them
than fit has points that cover longer, and is said to be `behind` meanwhile. A topic that fell quiet loses its mark with its last
point ([ADR 71](../../../../docs/adr/0071-history-is-points-of-what-was-active.md)).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from math import ceil

from messaging.adminrpc.history import HistoryPoint
from messaging.background import BackgroundLoops
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.metering.history_buffer import HistoryBuffer
from messaging.broker.runtime.metering.holdings import Holdings, SumKey, Sums
from messaging.broker.runtime.topics.backlog.age import UNKNOWN, BacklogAges
from messaging.broker.runtime.topics.loaded_topic import LoadedTopic
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.topics.topic_rates import HistoryMark, TopicRates
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.clock import boottime_ms
from messaging.errors import TopicNotFound
from messaging.history.points import COLUMNS, MINUTE_MS, OLDEST_UNKNOWN, WIDTH_MS_MAX, side_by_side, values_of
from messaging.protocol.system_topics import is_system_topic

POINTS_A_MINUTE = 4_000  # of topics and subscriptions
SHARE = 50  # topics of a tenant, before others have their share of the minute
SUBSCRIPTIONS_A_POINT = 100  # of one topic; with more of them each has its turn
AGE_READS_A_MINUTE = 100  # of the log, to learn how old a backlog is
TOPIC_COST, SUBSCRIPTION_COST, HELD_COST = 60, 25, 6  # in units of `core/turns/command_costs.py`
NOTHING = (0,) * len(COLUMNS)


class HistorySampler:
    """`now_ms`: the clock of the broker. `slices`: turns for the work of a tenant."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        slices: Callable[[str], TurnSlices],
        background: BackgroundLoops,
        passed_ms: Callable[[], int] = boottime_ms,
    ) -> None:
        self._now_ms = now_ms
        self.passed_ms = passed_ms
        self._slices = slices
        self._loop = background.register("sample_history")
        self.buffer = HistoryBuffer(now_ms())
        self._ages = BacklogAges()
        self._marked: dict[str, deque[Topic]] = {}  # by tenant uid; whose turn was longest ago comes first
        self._marks: dict[Topic, HistoryMark] = {}
        self._sums: Sums = {}  # of the points since the last minute
        self._said: Sums = {}  # what loaded topics held, as the last points say
        self.topics: Iterable[Topic] = ()  # those that are loaded; may change while it is gone through
        self._ended_ms, self._ended_at = now_ms(), passed_ms()
        self._age_reads = 0
        self._held_last: Sums = {}

    # --- topics that come, fall quiet and go

    def began(self, topic: LoadedTopic) -> HistoryMark | None:
        """Called before anything is counted of a topic that was quiet. None: it has no history."""
        if not isinstance(topic, Topic) or is_system_topic(topic.name) or not topic.tenant_uid:
            return None
        mark = self._marks.get(topic)
        if mark is None:
            mark = self._marks[topic] = HistoryMark()
            self._begin(topic, mark)
        if not mark.queued:
            mark.queued = True
            self._marked.setdefault(topic.tenant_uid, deque()).append(topic)
        return mark

    def unloaded(self, topic: Topic) -> None:
        """Its last point. What was deleted holds nothing any more."""
        deleted = isinstance(topic.closed, TopicNotFound)
        mark = self._marks.pop(topic, None)
        if mark is None and deleted and not is_system_topic(topic.name) and topic.tenant_uid:
            mark = HistoryMark()
            self._begin(topic, mark)
        if mark is not None:
            with self._loop.guard(topic=topic.text):
                self._make_points(topic, mark, self._known_ages(topic), gone=deleted)

    def _begin(self, topic: Topic, mark: HistoryMark) -> None:
        mark.begin(self._now_ms(), self.passed_ms(), _counted(topic))
        table = topic.subscriptions.table
        if len(table) <= SUBSCRIPTIONS_A_POINT:  # with more of them it keeps its mark as long as it is loaded
            mark.subscriptions = {key: _sent(each) for key, each in table.items() if each.durable}

    def _known_ages(self, topic: Topic) -> dict[str, int]:
        return self._ages.known(topic) if len(topic.subscriptions.table) <= SUBSCRIPTIONS_A_POINT else {}

    # --- each minute

    def wait_s(self) -> float:
        """Until the minute ends."""
        return (MINUTE_MS - self._now_ms() % MINUTE_MS) / 1000 + 0.001

    async def sample(self) -> None:
        """Goes around the tenants, and makes the points of the minute."""
        room, self._age_reads = POINTS_A_MINUTE, AGE_READS_A_MINUTE
        now_ms, passed_ms = self._now_ms(), self.passed_ms()
        turns = deque((uid, len(topics)) for uid, topics in self._marked.items())
        behind: dict[str, int] = {}
        while turns:
            uid, left = turns.popleft()
            topics = self._marked[uid]
            for _ in range(min(left, SHARE) if room > 0 else 0):
                if not topics or room <= 0:
                    break
                topic = topics.popleft()
                left -= 1
                if topic in self._marks:
                    room -= await self._look(topic)
            left = min(left, len(topics))
            if left and room > 0:
                turns.append((uid, left))
            elif left:
                behind[uid] = min((mark.from_ms for topic in topics if (mark := self._marks.get(topic))), default=now_ms)
            if not topics:
                del self._marked[uid]
        self.buffer.behind = behind
        self._end_minute(now_ms, passed_ms, await self._held_now())

    async def _look(self, topic: Topic) -> int:
        """Makes the points of one topic; how many. It keeps its mark, and its place in the row, unless it is quiet."""
        mark, some = self._marks[topic], min(len(topic.subscriptions.table), SUBSCRIPTIONS_A_POINT)
        slices = self._slices(topic.name.tenant)
        await slices.spend(TOPIC_COST + SUBSCRIPTION_COST * some)
        made = 0
        with self._loop.guard(topic=topic.text):
            ages = self._known_ages(topic)
            if self._age_reads > 0 and some < SUBSCRIPTIONS_A_POINT and len(ages) < _waiting(topic):
                self._age_reads -= some
                ages = await self._ages.of(topic, slices)
            if self._marks.get(topic) is mark:  # or it was unloaded meanwhile, with its last point
                made = self._make_points(topic, mark, ages)
        if self._marks.get(topic) is mark:
            self._after_look(topic, mark)
        return made or 1

    def _after_look(self, topic: Topic, mark: HistoryMark) -> None:
        if topic.rates is not None or mark.further:
            self._marked.setdefault(topic.tenant_uid, deque()).append(topic)
            return
        mark.queued = False
        if len(topic.subscriptions.table) <= SUBSCRIPTIONS_A_POINT:
            del self._marks[topic]

    def _make_points(self, topic: Topic, mark: HistoryMark, ages: dict[str, int], *, gone: bool = False) -> int:
        """Of what happened since the mark, which begins anew."""
        now_ms, passed_ms = self._now_ms(), self.passed_ms()
        width_ms = min(max(1, passed_ms - mark.from_at), WIDTH_MS_MAX)  # the wall clock may have been set
        from_ms = now_ms - width_ms
        table = {} if gone else {key: each for key, each in topic.subscriptions.table.items() if each.durable}
        points: list[tuple[str, tuple[int, ...]]] = []
        oldest_ms, backlog, consumers = 0, 0, 0
        for subscription in table.values():
            backlog = max(backlog, subscription.backlog_entries)
            consumers += len(subscription.consumers)
        for key in _next_of(table, mark):
            before = mark.subscriptions.pop(key, (0, 0, 0))
            mark.subscriptions[key] = _sent(table[key])
            points.append((key, _of_subscription(topic, table[key], before, ages.get(key), width_ms, now_ms, mark)))
        for key in [key for key in mark.subscriptions if key not in table]:  # deleted
            del mark.subscriptions[key]
            points.append((key, NOTHING))
        times = [ages.get(key, UNKNOWN) for key, each in table.items() if each.backlog_entries]
        oldest_ms = min((at_ms for at_ms in times if at_ms > 0), default=OLDEST_UNKNOWN if times else 0)
        counted, publisher = _counted(topic), topic.publisher
        added = [max(0, after - before) for after, before in zip(counted, mark.counted, strict=True)]
        values = values_of(
            messages_in=added[0],
            bytes_in=added[1],
            messages_out=added[2],
            bytes_out=added[3],
            timed_publishes=added[4],
            publish_us=added[5],
            throttled_ms=min(mark.throttled_ms, width_ms),
            expired_entries=sum(value[COLUMNS.index("expired_entries")] for _, value in points),
            backlog_entry_ms=backlog * width_ms,
            in_peak=ceil(mark.in_peak),
            out_peak=ceil(mark.out_peak),
            publish_us_max=publisher.publish_us_max,
            backlog_max=backlog,
            age_max_ms=now_ms - oldest_ms if oldest_ms > OLDEST_UNKNOWN else 0,
            backlog_entries=backlog,
            oldest_ms=oldest_ms,
            stored_bytes=0 if gone else topic.ledger.stored_bytes,
            producers=0 if gone else len(topic.producers),
            consumers=consumers,
        )
        publisher.publish_us_max = 0
        uid, namespace, text = topic.tenant_uid, str(topic.name.namespace), topic.text
        for key, of_subscription in [("", values), *points]:
            self.buffer.add(HistoryPoint(uid, namespace, text, key, from_ms, now_ms, list(of_subscription)))
        for name in _whole(topic):
            _add(self._sums, name, values)
        if topic.name.partition >= 0:
            for key, of_subscription in points:
                _add(self._sums, (uid, namespace, str(topic.name.base), key), of_subscription)
        mark.begin(now_ms, passed_ms, counted)
        return 1 + len(points)

    # --- at the end

    async def ending(self) -> None:
        """Before topics are closed, each of which then makes its last point."""
        self._held_last = await self._held_now()

    def ended(self) -> None:
        """The last minute, which is over early."""
        self.buffer.behind = {}
        self._end_minute(self._now_ms(), self.passed_ms(), self._held_last)

    # --- namespaces and tenants

    async def _held_now(self) -> Sums:
        """What all loaded topics hold, by what they are a part of."""
        holdings = Holdings(self._known_ages)
        slices = self._slices("")
        for topic in self.topics:
            await slices.spend(HELD_COST * (1 + len(topic.subscriptions.table)))
            if topic.closed is None and topic.tenant_uid:
                with self._loop.guard(topic=topic.text):
                    holdings.add(topic)
        return holdings.sums()

    def _end_minute(self, now_ms: int, passed_ms: int, held_now: Sums) -> None:
        """A point of each namespace, tenant and partitioned topic of which there is something new, and the time that is known."""
        width_ms = min(max(1, passed_ms - self._ended_at), WIDTH_MS_MAX)
        from_ms = now_ms - width_ms
        sums, self._sums = self._sums, {}
        for key in sums.keys() | held_now.keys() | self._said.keys():
            held = held_now.get(key, NOTHING)
            if key in sums or held != self._said.get(key, NOTHING):
                values = _of_many(sums.get(key, NOTHING), held, width_ms, now_ms)
                self.buffer.add(HistoryPoint(*key, from_ms, now_ms, list(values)))
        self._said = held_now
        steady = from_ms - self._ended_ms
        self.buffer.covered(self._ended_ms if abs(steady) <= 2_000 and self._ended_ms < now_ms else from_ms, now_ms)
        self._ended_ms, self._ended_at = now_ms, passed_ms


def note_second(mark: HistoryMark, topic: LoadedTopic, rates: TopicRates, width_ms: int) -> None:
    """Called about once a second for an active topic: its peaks, and whether a rate limit holds something back."""
    mark.in_peak = max(mark.in_peak, rates.messages_in.a_second)
    mark.out_peak = max(mark.out_peak, rates.messages_out.a_second)
    if not isinstance(topic, Topic):
        return
    limits = topic.publisher.limits
    if limits is not None and limits.blocked_by is not None:
        mark.throttled_ms += width_ms
    dispatcher = topic.started_dispatcher
    if dispatcher is not None and dispatcher.limits is not None:
        for key, subscription in islice(topic.subscriptions.table.items(), SUBSCRIPTIONS_A_POINT):
            if dispatcher.limits.blocked_by(subscription) is not None:
                mark.throttled_subscriptions[key] = mark.throttled_subscriptions.get(key, 0) + width_ms


def _whole(topic: Topic) -> list[SumKey]:
    """What a topic is a part of."""
    uid, namespace = topic.tenant_uid, str(topic.name.namespace)
    names = [(uid, namespace, "", ""), (uid, "", "", "")]
    return [*names, (uid, namespace, str(topic.name.base), "")] if topic.name.partition >= 0 else names


def _add(sums: Sums, key: SumKey, values: tuple[int, ...]) -> None:
    before = sums.get(key)
    sums[key] = values if before is None else side_by_side(before, values)


def _counted(topic: Topic) -> tuple[int, ...]:
    return (*topic.totals, topic.publisher.timed_publishes, topic.publisher.publish_us)


def _sent(subscription: Subscription) -> tuple[int, int, int]:
    return subscription.messages_out, subscription.bytes_out, subscription.entries_expired


def _waiting(topic: Topic) -> int:
    return sum(1 for each in topic.subscriptions.table.values() if each.backlog_entries)


def _next_of(table: dict[str, Subscription], mark: HistoryMark) -> list[str]:
    """Those whose turn it is. `mark.further`: others are still to have theirs."""
    if len(table) <= SUBSCRIPTIONS_A_POINT:
        mark.further = 0
        return list(table)
    keys = list(table)
    some = keys[mark.further : mark.further + SUBSCRIPTIONS_A_POINT]
    mark.further = mark.further + len(some) if mark.further + len(some) < len(keys) else 0
    return some


def _of_subscription(
    topic: Topic,
    subscription: Subscription,
    before: tuple[int, int, int],
    oldest_ms: int | None,
    width_ms: int,
    now_ms: int,
    mark: HistoryMark,
) -> tuple[int, ...]:
    backlog = subscription.backlog_entries
    messages, size_bytes, expired = (max(0, a - b) for a, b in zip(_sent(subscription), before, strict=True))
    known = oldest_ms is not None and oldest_ms > 0
    oldest = (oldest_ms or 0) if known else OLDEST_UNKNOWN
    return values_of(
        messages_out=messages,
        bytes_out=size_bytes,
        throttled_ms=min(mark.throttled_subscriptions.get(subscription.key, 0), width_ms),
        expired_entries=expired,
        backlog_entry_ms=backlog * width_ms,
        backlog_max=backlog,
        age_max_ms=now_ms - oldest if backlog and known else 0,
        backlog_entries=backlog,
        oldest_ms=oldest if backlog else 0,
        consumers=len(subscription.consumers),
    )


def _of_many(carried: tuple[int, ...], held: tuple[int, ...], width_ms: int, now_ms: int) -> tuple[int, ...]:
    """What topics carried within the minute, with what all of them hold. Peaks of topics at different times add up to none."""
    values = dict(zip(COLUMNS, carried, strict=True))
    states = dict(zip(COLUMNS, held, strict=True))
    backlog, oldest_ms = states["backlog_entries"], states["oldest_ms"]
    return values_of(
        **{
            **values,
            "in_peak": 0,
            "out_peak": 0,
            "backlog_entry_ms": backlog * width_ms,
            "backlog_max": backlog,
            "age_max_ms": now_ms - oldest_ms if oldest_ms > OLDEST_UNKNOWN else 0,
            "backlog_entries": backlog,
            "oldest_ms": oldest_ms,
            "stored_bytes": states["stored_bytes"],
            "producers": states["producers"],
            "consumers": states["consumers"],
        }
    )
