"""Compaction against a model: whatever was published, compacted, trimmed and killed in whatever order, a compacted read gives the
last values up to the horizon, and everything behind it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messaging.broker.runtime.topics.persistent import persistent
from messaging.storage.managed.retention import NOTHING
from tests.support.compacting import Keyed, Killed, LoopCalls, Seen, batch, compact, keyed, publish, read_all, topic_of
from tests.support.examples import examples
from tests.support.worlds.broker_world import BrokerWorld

pytestmark = pytest.mark.asyncio

KEYED = st.tuples(st.sampled_from([None, "a", "b", "c", "d"]), st.sampled_from([b"", b"1", b"2", b"3" * 300]))


class Publish(NamedTuple):
    messages: list[Keyed]
    batched: bool


class Compact(NamedTuple):
    killed_at: int  # the number of the call at which the worker dies; 0: it does not


class Roll(NamedTuple):
    trim: bool


STEPS = st.lists(
    st.one_of(
        st.builds(Publish, st.lists(KEYED, min_size=1, max_size=6), st.booleans()),
        st.builds(Compact, st.sampled_from([0, 0, 1, 2, 3, 4, 5])),
        st.builds(Roll, st.booleans()),
    ),
    max_size=12,
)


class Model:
    """What a compacted read gives: what the last compaction kept, and all that came later."""

    def __init__(self) -> None:
        self.messages: list[Keyed] = []

    def compact(self) -> None:
        last = {key: index for index, (key, _) in enumerate(self.messages) if key is not None}
        self.messages = [one for index, one in enumerate(self.messages) if last.get(one[0] or "") == index and one[1]]


def values(seen: list[Seen]) -> list[Keyed]:
    return [(one.key, one.value) for one in seen]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
async def test_a_compacted_read_is_the_model(world: BrokerWorld, tmp_path: Path, steps: list[object]) -> None:
    model, service = Model(), world.service
    number = len(service.topics.loaded)
    topic = f"persistent://acme/orders/t{number}"
    held = await topic_of(service, topic)
    for step in steps:
        if isinstance(step, Publish):
            frames = [batch(step.messages)] if step.batched else [keyed(*one) for one in step.messages]
            await publish(service, *frames, topic=topic)
            model.messages += step.messages
        elif isinstance(step, Compact):
            calls = LoopCalls(service)
            left = [step.killed_at]

            def die(method: str, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] == 0:
                    raise Killed(method)

            calls.before_call = die
            try:
                await compact(service, tmp_path, topic=topic, calls=calls)
                model.compact()
            except Killed:
                for session in service.compactions.sessions():
                    await service.compactions.abort(session.session_id, "killed")
        elif isinstance(step, Roll):
            await held.ledger.roll()
            if step.trim and held.ledger_list.compacted is not None:
                await held.ledger.trim(service.compactions.kept_from(persistent(held), held.ledger_list.last), NOTHING)
        assert values(await read_all(service, topic=topic)) == model.messages
