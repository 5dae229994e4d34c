"""One run: a subscription of one type, things happen to it step by step, and in the end everything is read. The same seed gives the
same run.

topic.py        the subscription on a model of its topic     model.py        what became of each entry
blocks.py       what producers send                          cursor_log.py   what a crash leaves
operations.py   what can happen
deliveries.py   what must hold of each delivery              invariants.py   what must hold of the whole
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from random import Random
from traceback import format_exception
from unittest.mock import patch

from messaging.broker.core.dispatch import key_shared
from messaging.broker.core.subscription_type import SubscriptionType
from tests.simulation.checker import Violated
from tests.simulation.small_runs import small_sizes
from tests.simulation.subscriptions import changes_of_delays as changes_of_delays
from tests.simulation.subscriptions import deliveries, invariants
from tests.simulation.subscriptions.operations import OPERATIONS
from tests.simulation.subscriptions.topic import Topic

LOOK_AT_ALL_AFTER = 50  # steps
LOOK_AHEAD = 10
LINES = 60  # of the trace


@dataclass
class Result:
    kind: SubscriptionType
    seed: int
    steps: int  # done
    counts: Counter[str]
    trace: list[str]  # the end of it
    violation: str  # empty: everything held

    @property
    def described(self) -> str:
        again = f"python -m tests.simulation.subscriptions --type {self.kind.name.lower()} --seed {self.seed} --steps {self.steps}"
        return "\n".join([*self.trace, f"seed {self.seed}, step {self.steps}: {self.violation}", f"again: {again}"])


def simulate(kind: SubscriptionType, seed: int, steps: int) -> Result:
    random = Random(seed)
    trace: deque[str] = deque(maxlen=LINES)
    counts: Counter[str] = Counter()
    names, weights = list(OPERATIONS), [operation.weight for operation in OPERATIONS.values()]
    violation, step = "", 0
    with patch.object(key_shared, "LOOK_AHEAD_PER_CONSUMER", LOOK_AHEAD), small_sizes():
        topic = Topic(kind, random, deliveries.check)
        try:
            for step in range(1, steps + 1):
                [name] = random.choices(names, weights)
                trace.append(f"{step} {name}")
                done = OPERATIONS[name].perform(topic)
                if not done:
                    trace.pop()
                    continue
                trace[-1] = f"{step} {name}: {done}"
                counts[name] += 1
                invariants.require(topic, invariants.AFTER_EVERY_STEP)
                if step % LOOK_AT_ALL_AFTER == 0:
                    invariants.require(topic, invariants.NOW_AND_THEN)
            read_all(topic)
        except Violated as violated:
            violation = str(violated)
        except Exception as error:  # of the subscription
            violation = "".join(format_exception(error))
    counts.update(topic.model.fates.values())
    counts.update(topic.model.dropped)
    counts["deliveries"] = topic.counts["deliveries"]
    counts["sent"] = topic.model.sent
    counts.update(
        {what: count for what, count in topic.counts.items() if what.endswith(("delayed messages", "dropped", "exceptions"))}
    )
    return Result(kind, seed, step, counts, list(trace), violation)


def read_all(topic: Topic) -> None:
    """In the end somebody who takes everything gets everything."""
    for consumer in topic.consumers:
        topic.detach(consumer)
    if topic.moving:
        topic.end_move()
    topic.ttl_ms = 0
    topic.limit_redeliveries(None)
    topic.pass_time(1_000_000)
    consumer = topic.attach()
    topic.flow(consumer, 1_000_000)
    while unacked := topic.model.held_by(consumer):
        topic.acknowledge(consumer, unacked)
    if topic.model.open:
        raise Violated(f"{list(topic.model.open)[:5]} never came")
    invariants.require(topic, (*invariants.AFTER_EVERY_STEP, *invariants.NOW_AND_THEN))
