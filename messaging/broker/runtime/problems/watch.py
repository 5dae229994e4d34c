"""Looks at loaded topics in turn, and keeps what is wrong with each, so that no question walks over topics.

A look takes a part of the topics of each tenant; with few of them that is all, every second. It goes around the tenants, a share of
the look at a time, and a tenant with many topics or subscriptions only makes its own rounds longer. Of a topic that is unloaded
what nobody consumes is kept, and of topics that nobody used since the start it is read once from the metadata (`stored.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from messaging.background import BackgroundLoop
from messaging.broker.core.diagnosis.delivery_health import Verdict
from messaging.broker.core.diagnosis.explain import DeliveryState
from messaging.broker.core.diagnosis.problems import Sign
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.problems.known import KnownProblems, TopicProblems
from messaging.broker.runtime.problems.refusals import SchemaRefusals
from messaging.broker.runtime.problems.topic_look import (
    FOR_A_WHILE,
    GLANCE_COST,
    JUDGE_COST,
    ThrottledMs,
    TopicLook,
    abandoned_of,
)
from messaging.broker.runtime.problems.topic_signs import may_pass, problem_of, subscription_signs, topic_signs, with_causes
from messaging.broker.runtime.topics.registry import Topics
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.errors import TopicNotFound
from messaging.problems.kinds import Kind, worst
from messaging.problems.order import Problem, rank
from messaging.storage.meta_store import tenant_of

LOOK_S = 1.0
TOPICS_A_LOOK, SUBSCRIPTIONS_A_LOOK = 500, 500  # of the latter those with a backlog: about 30 ms a second at most, in slices
SHARE_SUBSCRIPTIONS = 20  # of a tenant, before others have their share of the look


class Round:
    """Of the topics of one tenant. `looked_ms`: everything loaded was looked at since; None: not yet."""

    def __init__(self, tenant: str, looked_ms: int | None) -> None:
        self.tenant = tenant
        self.namespaces = set[str]()  # those with loaded topics, and maybe others
        self.namespaces_left = deque[str]()
        self.left = deque[str]()  # topics of one of them
        self.under_way: TopicLook | None = None
        self.began_ms = 0
        self.looked_ms = looked_ms

    @property
    def is_ended(self) -> bool:
        return self.under_way is None and not self.left and not self.namespaces_left


class LookBudget:
    """What is left of one look for all tenants: `topics`, and `room` in units of cost."""

    def __init__(self) -> None:
        self.topics = TOPICS_A_LOOK
        self.room = SUBSCRIPTIONS_A_LOOK * (GLANCE_COST + JUDGE_COST)
        self.slices: dict[str, TurnSlices] = {}


class ProblemWatch:
    """`now_ms`: the clock of the broker. `owner_of`: see `SchemaRefusals`."""

    def __init__(
        self, topics: Topics, now_ms: Callable[[], int], loop: BackgroundLoop, owner_of: Callable[[str], str | None]
    ) -> None:
        self._topics = topics
        self._now_ms = now_ms
        self._loop = loop
        self.known = KnownProblems()
        self.refusals = SchemaRefusals(now_ms, owner_of)
        self._throttled: dict[str, ThrottledMs] = {}  # by topic
        self._rounds: dict[str, Round] = {}  # by tenant
        self._turns: deque[Round] = deque()  # the same; whose turn was longest ago comes first
        self._caught_up = False  # everything was looked at once since the start

    # --- looking

    async def look(self) -> None:
        """The next part of each round."""
        look, ended = LookBudget(), list[Round]()
        try:
            while self._turns and look.room > 0 and look.topics > 0:
                turn = self._turns.popleft()
                is_ended = True
                try:
                    is_ended = await self._go_on(turn, look)
                finally:
                    (ended if is_ended else self._turns).append(turn)
        finally:
            self._turns.extend(turn for turn in ended if self._rounds.get(turn.tenant) is turn)
        if not self._caught_up:
            self._caught_up = all(turn.looked_ms is not None for turn in self._rounds.values())

    async def _go_on(self, turn: Round, look: LookBudget) -> bool:
        """Whether the round is at its end. Takes a share of the look at most."""
        if turn.is_ended:
            turn.namespaces_left.extend(turn.namespaces)
            turn.began_ms = self._now_ms()
        slices = look.slices.get(turn.tenant)
        if slices is None:
            slices = look.slices[turn.tenant] = self._topics.services.loops.slices(turn.tenant)
        share = min(look.room, SHARE_SUBSCRIPTIONS * (GLANCE_COST + JUDGE_COST))
        look.room -= share
        while share > 0 and look.topics > 0 and not turn.is_ended:
            if turn.under_way is None:
                if not turn.left:
                    self._next_namespace(turn)
                    continue
                text = turn.left.popleft()
                topic = self._topics.loaded.get(text)
                look.topics -= 1
                if topic is None or topic.closed is not None:
                    continue
            else:
                topic = turn.under_way.topic
            topic_look, turn.under_way = turn.under_way, None  # if it fails, the next topic follows
            with self._loop.guard(topic=topic.text):
                if topic_look is None:
                    topic_look = TopicLook(topic, self.known, self._throttled.get(topic.text, {}), self._now_ms)
                share -= await topic_look.go_on(slices, share)
                if topic_look.ended:
                    self._keep(topic_look)
                elif topic.closed is None:
                    turn.under_way = topic_look
        look.room += share
        if not turn.is_ended:
            return False
        turn.looked_ms = turn.began_ms
        if not turn.namespaces:
            del self._rounds[turn.tenant]  # until a topic of it is loaded
        return True

    def _next_namespace(self, turn: Round) -> None:
        namespace = turn.namespaces_left.popleft()
        topics = self._topics.loaded_of(namespace)
        turn.left.extend(topic.text for topic in topics)
        if not topics:
            turn.namespaces.discard(namespace)

    def _keep(self, topic_look: TopicLook) -> None:
        topic = topic_look.topic
        if topic.closed is not None:  # it was unloaded meanwhile
            return
        self.known.put(topic.text, topic.name.tenant, topic_look.most_urgent)
        if topic_look.throttled_ms:
            self._throttled[topic.text] = topic_look.throttled_ms
        else:
            self._throttled.pop(topic.text, None)

    def put(self, text: str, tenant: str, problems: Iterable[Problem]) -> None:
        """What is wrong with a topic from now on."""
        most_urgent = TopicProblems()
        for problem in problems:
            most_urgent.add(problem)
        self.known.put(text, tenant, most_urgent)

    # --- topics that come and go

    def loaded(self, topic: Topic) -> None:
        tenant = topic.name.tenant
        self.known.forget(topic.text, tenant)
        turn = self._rounds.get(tenant)
        if turn is None:
            # A tenant without loaded topics has none that was not looked at.
            turn = self._rounds[tenant] = Round(tenant, self._now_ms() if self._caught_up else None)
            self._turns.append(turn)
        turn.namespaces.add(str(topic.name.namespace))

    def unloaded(self, topic: Topic) -> None:
        """What has a backlog and no consumer keeps it."""
        self._throttled.pop(topic.text, None)
        if isinstance(topic.closed, TopicNotFound):
            self.deleted(topic.text)
            return
        self.known.put(topic.text, topic.name.tenant, abandoned_of(topic, self._now_ms()))

    def deleted(self, topic: str) -> None:
        self._throttled.pop(topic, None)
        self.known.forget(topic, tenant_of(topic))
        self.refusals.topic_deleted(topic)

    # --- asking

    def of(self, tenant: str) -> list[Problem]:
        """In the order of their rank."""
        return self.known.ranked(tenant, self.refusals.of(tenant))

    def count(self, tenant: str) -> int:
        """How many problems `of` goes through."""
        return self.known.count(tenant) + self.refusals.count(tenant)

    def tenants(self) -> set[str]:
        """Those of which something is known."""
        return self.known.tenants() | self.refusals.tenants()

    def looked_ms(self, tenants: Iterable[str] | None) -> int | None:
        """Since when everything that is loaded of them was looked at; None: not yet. `tenants` None: all."""
        if not self._caught_up and not self._rounds:
            return None
        if tenants is None:
            rounds = list(self._rounds.values())
        else:
            rounds = [turn for tenant in tenants if (turn := self._rounds.get(tenant)) is not None]
        times = [turn.looked_ms for turn in rounds]
        if None in times:
            return None
        return min((at_ms for at_ms in times if at_ms is not None), default=self._now_ms())

    def of_subscription(self, topic: Topic, subscription: Subscription, state: DeliveryState, verdict: Verdict) -> list[Problem]:
        """What is wrong with a subscription of a loaded topic now, in order. `verdict`: of `judge_delivery` in this state."""
        return self._told(topic, subscription.name, subscription_signs(topic, subscription, state, verdict))

    def of_topic(self, topic: Topic) -> list[Problem]:
        """What is wrong with a loaded topic itself now, in order; what is wrong with its subscriptions is not among it."""
        refusal = self.refusals.refusal_of(topic.text)
        told = self._told(topic, "", topic_signs(topic, self._now_ms()))
        return sorted([*told, *([refusal] if refusal is not None else [])], key=rank)

    def _told(self, topic: Topic, subscription: str, signs: list[Sign]) -> list[Problem]:
        """As the list has it: since when it is known, and with what stays for a while."""
        before = {each.kind: each for each in self.known.of_topic(topic.text) if each.subscription == subscription}
        found = {}
        for sign in signs:
            earlier = before.get(sign.kind)
            since_ms = sign.since_ms if sign.since_ms is not None or earlier is None else earlier.since_ms
            found[sign.kind.value] = problem_of(topic.name, subscription, sign, since_ms)
        lasting = {kind: problem for kind, problem in before.items() if kind in FOR_A_WHILE}
        return with_causes(sorted((lasting | found).values(), key=rank))

    def worst_of(self, topic: str) -> str:
        """The kind of the most urgent problem of a topic that is not partitioned, or of a partition; "" of none."""
        kinds: list[str] = [Kind.SCHEMA_REFUSED] if self.refusals.is_refused(topic) else []
        return worst([*kinds, *(each.kind for each in self.known.of_topic(topic) if not may_pass(each, self._now_ms()))])
