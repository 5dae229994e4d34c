"""Counts of what is limited by namespace and tenant: never below the truth."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.limit_counts import COUNTED_EVERY_MS, ConnectedCounts, StoredCounts
from messaging.protocol.names import TopicName, parse_topic

NAMES = [parse_topic(f"persistent://{place}") for place in ("a/x/t", "a/x/u", "a/y/t", "b/x/t")]
STEPS = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 3)), max_size=30)


@given(STEPS, STEPS)
def test_what_is_connected_is_what_topics_have(totals: list[tuple[TopicName, int]], changes: list[tuple[TopicName, int]]) -> None:
    counts, model, added = ConnectedCounts(), {}, Counter[str]()
    for name, count in totals:
        counts.now(name, str(name), count)
        model[name] = count
    for name, count in changes:
        counts.add(name, count)
        for whose in (name.tenant, str(name.namespace)):
            added[whose] += count
    for whose in ("a", "b", "a/x", "a/y", "b/x"):
        held = sum(count for name, count in model.items() if whose in (name.tenant, str(name.namespace)))
        assert counts.of(whose) == held + added[whose]


def test_a_topic_may_say_what_it_has_again() -> None:
    counts = ConnectedCounts()
    for count in (2, 2, 0, 0):
        counts.now(NAMES[0], "t", count)
        assert counts.of("a") == counts.of("a/x") == count


STORE_STEPS = st.lists(
    st.tuples(st.sampled_from(["reserve", "made", "refused", "delete", "begin", "read", "learn"]), st.sampled_from(["a/x", "a/y"])),
    max_size=60,
)


@given(STORE_STEPS)
def test_a_count_is_never_below_the_truth_and_exact_when_nothing_is_under_way(steps: list[tuple[str, str]]) -> None:
    stored, counts, pending = Counter[str](), StoredCounts(), Counter[str]()
    counting, read = False, None
    for step, namespace in steps:
        if step == "reserve":
            counts.reserve("a", namespace)
            pending[namespace] += 1
        elif step == "made" and pending[namespace]:
            stored[namespace] += 1
            pending[namespace] -= 1
            counts.release("a", namespace, made=True)
        elif step == "refused" and pending[namespace]:
            pending[namespace] -= 1
            counts.release("a", namespace, made=False)
        elif step == "delete" and stored[namespace]:
            stored[namespace] -= 1
            counts.forget("a")
        elif step == "begin" and not counting:
            counts.begin("a")
            counting, read = True, None
        elif step == "read" and counting:
            read = Counter(stored)
        elif step == "learn" and counting and read is not None:
            counts.learn("a", read, 0)
            counting = False
        if counts.knows("a"):
            for one in ("a/x", "a/y"):
                assert counts.of("a", one) >= stored[one] + pending[one]
            assert counts.of("a") >= (stored + pending).total()
    counts.begin("a")
    counts.learn("a", stored, 0)
    assert counts.of("a") == (stored + pending).total()


def test_a_refusal_counts_again_but_not_all_the_time() -> None:
    counts = StoredCounts()
    assert counts.may_be_less("a", 0)
    counts.begin("a")
    counts.learn("a", {"a/x": 3}, 1_000)
    assert not counts.may_be_less("a", 999 + COUNTED_EVERY_MS)
    assert counts.may_be_less("a", 1_000 + COUNTED_EVERY_MS)
    counts.forget("a")
    assert counts.may_be_less("a", 1_001)
