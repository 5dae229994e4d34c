"""Looks at loaded topics in turn, and keeps what is wrong with each, so that no question walks over topics.

A look takes a part of the topics; with few of them that is all, every second. Of a topic that is unloaded what nobody consumes is
kept, and of topics that nobody used since the start it is read once from the metadata (`stored.py`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from messaging.background import BackgroundLoop
from messaging.broker.core.diagnosis.problems import Sign, is_quiet, signs_of_abandoned, signs_of_subscription, signs_of_topic
from messaging.broker.core.non_persistent import NonPersistentSubscription
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.problems.known import KnownProblems
from messaging.broker.runtime.problems.refusals import SchemaRefusals
from messaging.broker.runtime.topics.registry import Topics
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.topics.topic_rates import QUIET
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.errors import TopicNotFound
from messaging.problems.kinds import Kind, worst
from messaging.problems.order import Problem, rank
from messaging.protocol.names import TopicName
from messaging.protocol.system_topics import is_system_topic

LOOK_S = 1.0
TOPICS_A_LOOK, SUBSCRIPTIONS_A_LOOK = 500, 500  # of the latter those with a backlog: about 30 ms a second at most, in slices
OF_TOPIC_MAX = 20  # problems of one topic; further ones are counted
GLANCE_COST, JUDGE_COST = 4, 110  # of one subscription, in units of `core/turns/command_costs.py`
KEPT_MS = 30_000  # a limit that is reached again and again is reached all the time
_KEPT = frozenset({Kind.PUBLISH_THROTTLED, Kind.DISPATCH_THROTTLED})


class SignRecord(NamedTuple):
    """`last_ms`: when the sign was last there."""

    since_ms: int
    last_ms: int
    sign: Sign


SignKey = tuple[Kind, str]  # with the name of the subscription, "" for the topic


class ProblemWatch:
    """`now_ms`: the clock of the broker."""

    def __init__(self, topics: Topics, now_ms: Callable[[], int], loop: BackgroundLoop) -> None:
        self._topics = topics
        self._now_ms = now_ms
        self._loop = loop
        self.known = KnownProblems()
        self.refusals = SchemaRefusals(now_ms)
        self.looked_ms: int | None = None  # everything loaded was looked at since; None: not yet
        self._noticed: dict[str, dict[SignKey, SignRecord]] = {}  # by topic
        self._left: deque[str] = deque()  # topics of the round under way
        self._round_ms = 0
        self._beyond: Counter[str] = Counter()  # by tenant, in the round under way
        self.beyond: Counter[str] = Counter()  # problems that were not kept, by tenant, in the last round

    # --- looking

    async def look(self) -> None:
        """The next part of a round."""
        if not self._left:
            self._left.extend(self._topics.loaded)
            self._round_ms = self._now_ms()
        room, slices = SUBSCRIPTIONS_A_LOOK, dict[str, TurnSlices]()
        for _ in range(min(TOPICS_A_LOOK, len(self._left))):
            if room <= 0:
                return
            topic = self._topics.loaded.get(self._left.popleft())
            if topic is None or topic.closed is not None:
                continue
            tenant = topic.name.tenant
            if tenant not in slices:
                slices[tenant] = self._topics.services.loops.slices(tenant)
            with self._loop.guard(topic=topic.text):
                room -= await self._look_at(topic, slices[tenant])
        if not self._left:
            self.looked_ms = self._round_ms
            self.beyond, self._beyond = self._beyond, Counter()

    async def _look_at(self, topic: Topic, slices: TurnSlices) -> int:
        """How many subscriptions were judged."""
        if is_system_topic(topic.name):
            return 0
        judged, signs, rates = 0, dict[SignKey, Sign](), topic.rates or QUIET
        for subscription in list(topic.subscriptions.table.values()):
            await slices.spend(GLANCE_COST)
            if not isinstance(subscription, NonPersistentSubscription) and is_quiet(subscription):
                continue
            await slices.spend(JUDGE_COST)
            judged += 1
            state = topic.consumers.delivery_state(subscription)
            grows, idle_ms = rates.members.grows(subscription), topic.idle.subscription_ms(subscription.name)
            for sign in signs_of_subscription(subscription, state, grows=grows, idle_since_ms=idle_ms):
                signs[sign.kind, subscription.name] = sign
        quota, limits = topic.publisher.quota, topic.publisher.limits
        if quota is not None and not len(topic.producers):
            await slices.spend(GLANCE_COST * (1 + len(topic.subscriptions.table)))
        for sign in signs_of_topic(
            held=quota.held() if quota is not None and not len(topic.producers) else "",
            throttled_by=None if limits is None else limits.blocked_by,
            name=topic.name.base.local,
            last_published_ms=topic.publisher.last_published_ms,
            producers=len(topic.producers),
            now_ms=self._now_ms(),
        ):
            signs[sign.kind, ""] = sign
        if topic.closed is None:  # else it was unloaded meanwhile
            self._keep(topic.text, topic.name, signs)
        return judged

    def _keep(self, text: str, name: TopicName, signs: dict[SignKey, Sign]) -> None:
        now_ms, before = self._now_ms(), self._noticed.get(text, {})
        noticed = {key: _noticed(before.get(key), sign, now_ms) for key, sign in signs.items()}
        for key, earlier in before.items():
            if key not in noticed and key[0] in _KEPT and now_ms - earlier.last_ms < KEPT_MS:
                noticed[key] = earlier
        if noticed:
            self._noticed[text] = noticed
        else:
            self._noticed.pop(text, None)
        problems = [_problem(name, key[1], one.sign, one.since_ms) for key, one in noticed.items()]
        self.put(text, name.tenant, problems)

    def put(self, text: str, tenant: str, problems: list[Problem]) -> None:
        """What is wrong with a topic from now on."""
        if len(problems) > OF_TOPIC_MAX:
            problems = sorted(problems, key=rank)
            self._beyond[tenant] += len(problems) - OF_TOPIC_MAX
        if not self.known.put(text, tenant, problems[:OF_TOPIC_MAX]):
            self._beyond[tenant] += len(problems)

    # --- topics that come and go

    def loaded(self, topic: Topic) -> None:
        self.known.forget(topic.text, topic.name.tenant)

    def unloaded(self, topic: Topic) -> None:
        """What has a backlog and no consumer keeps it."""
        self._noticed.pop(topic.text, None)
        if isinstance(topic.closed, TopicNotFound):
            self.deleted(topic.text)
            return
        durable = [subscription for subscription in topic.subscriptions.table.values() if subscription.durable]
        problems = self._abandoned(topic, durable) if topic.keeps_messages else ()
        self.put(topic.text, topic.name.tenant, list(problems))

    def _abandoned(self, topic: Topic, subscriptions: Iterable[Subscription]) -> Iterator[Problem]:
        for subscription in subscriptions:
            idle_ms = self._now_ms() if subscription.consumers else topic.idle.subscription_ms(subscription.name)
            # It is not loaded for those who connect: whoever left, left.
            for sign in signs_of_abandoned(subscription.backlog_entries, idle_ms, 1 << 62):
                yield _problem(topic.name, subscription.name, sign, idle_ms)

    def deleted(self, topic: str) -> None:
        self._noticed.pop(topic, None)
        self.known.forget(topic, topic.partition("://")[2].partition("/")[0])

    # --- asking

    def of(self, tenant: str) -> list[Problem]:
        """In the order of their rank."""
        return self.known.ranked(tenant, self.refusals.of(tenant))

    def tenants(self) -> set[str]:
        """Those of which something is known."""
        return self.known.tenants() | self.refusals.tenants()

    def worst_of(self, topic: str) -> str:
        """The kind of the most urgent problem of a topic that is not partitioned, or of a partition; "" of none."""
        return worst([problem.kind for problem in self.known.of_topic(topic)])


def _noticed(before: SignRecord | None, sign: Sign, now_ms: int) -> SignRecord:
    since_ms = sign.since_ms if sign.since_ms is not None else before.since_ms if before is not None else now_ms
    return SignRecord(since_ms, now_ms, sign)


def _problem(name: TopicName, subscription: str, sign: Sign, since_ms: int | None) -> Problem:
    return Problem(
        kind=sign.kind,
        sentence=sign.sentence,
        remedy=sign.remedy,
        since_ms=since_ms,
        tenant=name.tenant,
        namespace=str(name.namespace),
        topic=str(name),
        subscription=subscription,
        waiting=sign.waiting,
        target=sign.target,
    )


def stored_problem(name: TopicName, subscription: str, since_ms: int | None) -> Problem:
    """Of a topic that is not loaded: how much waits there only loading it tells."""
    sentence = "No consumer is connected, and messages wait; how many is not known, as nobody has used the topic since the start."
    (sign,) = signs_of_abandoned(1, since_ms, 1 << 62)
    return _problem(name, subscription, sign._replace(sentence=sentence, waiting=0), since_ms)
