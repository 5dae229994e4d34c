"""Counts of what is limited by namespace and tenant: never below the truth."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.limits.limit_counts import (
    COUNTED_EVERY_MS,
    FEW,
    HEARD_EVERY_MS,
    ConnectedCounts,
    PendingCount,
    StoredCounts,
)
from messaging.protocol.names import TopicName, parse_topic

NAMES = [parse_topic(f"persistent://{place}") for place in ("a/x/t", "a/x/u", "a/y/t", "b/x/t")]
STEPS = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 3)), max_size=30)


@given(STEPS, STEPS)
def test_counts_of_connections_are_sums_over_topics(
    totals: list[tuple[TopicName, int]], changes: list[tuple[TopicName, int]]
) -> None:
    counts, model, added = ConnectedCounts(), {}, Counter[str]()
    for name, count in totals:
        counts.now(name, str(name), count)
        model[name] = count
    for name, count in changes:
        counts.add(name, count)
        for whose in (name.tenant, str(name.namespace)):
            added[whose] += count
    for whose in ("a", "b", "a/x", "a/y", "b/x"):
        expected = sum(count for name, count in model.items() if whose in (name.tenant, str(name.namespace)))
        assert counts.of(whose) == expected + added[whose]


def test_a_topic_may_say_what_it_has_again() -> None:
    counts = ConnectedCounts()
    for count in (2, 2, 0, 0):
        counts.now(NAMES[0], "t", count)
        assert counts.of("a") == counts.of("a/x") == count


WHAT = ["reserve", "made", "refused", "delete", "gone", "elsewhere", "begin", "read", "learn"]
STORE_STEPS = st.lists(st.tuples(st.sampled_from(WHAT), st.sampled_from(["a/x", "a/y"]), st.integers(0, 2)), max_size=80)


@given(STORE_STEPS)
def test_a_count_is_never_below_the_truth_and_exact_when_nothing_is_under_way(steps: list[tuple[str, str, int]]) -> None:
    """Several count at once; each reads the store at some moment between its begin and its end."""
    stored, counts, pending = Counter[str](), StoredCounts(), Counter[str]()
    counting: dict[int, tuple[PendingCount, Counter[str] | None]] = {}
    for step, namespace, number in steps:
        if step == "reserve":
            counts.reserve("a", namespace)
            pending[namespace] += 1
        elif step in ("made", "refused") and pending[namespace]:
            stored[namespace] += step == "made"
            pending[namespace] -= 1
            counts.release("a", namespace, made=step == "made")
        elif step == "delete" and stored[namespace]:
            stored[namespace] -= 1
            counts.forget("a")
        elif step == "gone" and stored[namespace]:
            stored[namespace] -= 1
            counts.gone("a", namespace)
        elif step == "elsewhere":
            stored[namespace] += 1
            counts.made_elsewhere("a")
        elif step == "begin" and number not in counting:
            counting[number] = counts.begin("a"), None
        elif step == "read" and number in counting:
            counting[number] = counting[number][0], Counter(stored)
        elif step == "learn" and number in counting:
            counted, read = counting.pop(number)
            if read is not None:
                counts.learn("a", counted, read, 0)
            counts.end("a", counted)
        if counts.knows("a"):
            for one_namespace in ("a/x", "a/y"):
                assert counts.of("a", one_namespace) >= stored[one_namespace] + pending[one_namespace]
            assert counts.of("a") >= (stored + pending).total()
    last = counts.begin("a")
    counts.learn("a", last, stored, 0)
    counts.end("a", last)
    assert counts.of("a") == (stored + pending).total()


def test_a_refusal_counts_again_but_not_all_the_time() -> None:
    counts = StoredCounts()
    assert counts.is_to_be_counted("a", 0, full=False)
    counts.learn("a", counts.begin("a"), {"a/x": 3}, 1_000)
    assert not counts.is_to_be_counted("a", 1_000 + COUNTED_EVERY_MS, full=False)
    assert not counts.is_to_be_counted("a", 999 + COUNTED_EVERY_MS, full=True)
    assert counts.is_to_be_counted("a", 1_000 + COUNTED_EVERY_MS, full=True)
    counts.forget("a")
    assert counts.is_to_be_counted("a", 1_001, full=False)


def test_what_other_brokers_made_is_counted_at_once_while_there_are_few() -> None:
    counts = StoredCounts()
    counts.learn("a", counts.begin("a"), {"a/x": FEW}, 1_000)
    counts.heard("a")
    assert counts.of("a") == FEW and counts.is_to_be_counted("a", 1_000, full=False)
    counting = counts.begin("a")
    counts.heard("a")
    counts.learn("a", counting, {"a/x": FEW}, 1_001)
    counts.end("a", counting)
    assert counts.is_to_be_counted("a", 1_001, full=False), "made while the store was read, it may be missing"
    counts.learn("a", counts.begin("a"), {"a/x": FEW}, 1_002)
    assert not counts.is_to_be_counted("a", 1_002, full=False)


def test_what_other_brokers_make_all_the_time_is_counted_at_times_where_there_are_many() -> None:
    """Counting takes as long as there are many: for each one that is made, it would take as long as the square of them."""
    counts, counted = StoredCounts(), 0
    for made in range(10_000):  # one every millisecond, by each of two brokers
        counts.heard("a")
        if counts.is_to_be_counted("a", made, full=False):
            counted += 1
            counts.learn("a", counts.begin("a"), {"a/x": FEW + 2 * made + 1}, made)
        counts.reserve("a", "a/x")
        counts.release("a", "a/x", made=True)
        assert counts.of("a") >= FEW + 2 * made - 2 * HEARD_EVERY_MS
    assert counted <= 10_000 // HEARD_EVERY_MS + 1
