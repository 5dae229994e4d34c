"""Bundles: every topic lies in one, and splitting moves none out of its range."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.errors import InvalidValue, PreconditionFailed
from messaging.protocol.bundles import (
    ALGORITHMS,
    BUNDLES_MAX,
    HASH_MAX,
    Bundle,
    bundle_of,
    bundles_of,
    by_bundle,
    equal_bundles,
    parse_boundaries,
    parse_bundle,
    position_of,
    split,
)

FOUR = equal_bundles(4)
TOPICS = [f"persistent://acme/orders/t{number}" for number in range(100)]


def test_positions_are_those_of_pulsar() -> None:
    """As a Pulsar 4.0 answered `namespaces get-topic-positions` for topics of these names."""
    assert position_of("persistent://public/default/a") == 4024516034
    assert str(Bundle(0, 0x40000000)) == "0x00000000_0x40000000"


def test_equal_bundles_are_cut_as_pulsar_cuts_them() -> None:
    assert FOUR == (0, 0x40000000, 0x80000000, 0xC0000000, HASH_MAX)
    assert equal_bundles(6) == (0, 0x2AAAAAAA, 0x55555554, 0x7FFFFFFE, 0xAAAAAAA8, 0xD5555552, HASH_MAX)
    assert equal_bundles(1) == (0, HASH_MAX)
    for count in (0, -1, BUNDLES_MAX + 1):
        with pytest.raises(PreconditionFailed, match=f"not {count}"):
            equal_bundles(count)


@given(st.lists(st.integers(1, HASH_MAX - 1), max_size=20, unique=True), st.text(max_size=30))
def test_a_topic_lies_in_one_bundle(cuts: list[int], name: str) -> None:
    boundaries = (0, *sorted(cuts), HASH_MAX)
    holding = [bundle for bundle in bundles_of(boundaries) if bundle.holds(position_of(name))]
    assert holding == [bundle_of(boundaries, name)]


@pytest.mark.parametrize("position", [0, 1, 0x3FFFFFFF, 0x40000000, HASH_MAX - 1, HASH_MAX])
def test_the_ends_of_the_range_belong_to_a_bundle(position: int) -> None:
    assert sum(bundle.holds(position) for bundle in bundles_of(FOUR)) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("odd", "Invalid bundle range: odd"),
        ("0x40000000", "Invalid bundle range"),
        ("0x1ffffffff_0xffffffff", "Invalid bundle range"),
        ("0x00000001_0xffffffff", "Cannot find bundle a/b/0x00000001_0xffffffff"),
        ("0xffffffff_0x00000000", "Cannot find bundle"),
        ("0xffffffff_0xffffffff", "Cannot find bundle"),
        ("0x40000000_0x40000000", "Cannot find bundle"),
        ("0x40000000_0xffffffff", "Expected upper boundary of a/b/0x40000000_0x80000000"),
    ],
)
def test_a_bundle_that_is_none(text: str, why: str) -> None:
    with pytest.raises(PreconditionFailed, match=why):
        parse_bundle(FOUR, "a/b", text)


def test_a_bundle_is_found_however_its_name_is_padded() -> None:
    for bundle in bundles_of(FOUR):
        assert parse_bundle(FOUR, "a/b", str(bundle)) == bundle
    assert parse_bundle(FOUR, "a/b", "0x0_0x0000040000000") == (0, 0x40000000)


def test_boundaries_that_are_given() -> None:
    assert parse_boundaries(["0xffffffff", "0x20000000", "0x0", "0x20000000"]) == (0, 0x20000000, HASH_MAX)
    for texts, why in (
        (["0x10000000", "0xffffffff"], "Input bundles do not cover"),
        ([], "Input bundles do not cover"),
        (["0x0", "0xfffffffe"], "Input bundles do not cover"),
        (["0x0", "40", "0xffffffff"], "'40' is no boundary"),
        ([f"0x{number:x}" for number in range(BUNDLES_MAX + 1)] + ["0xffffffff"], "up to 8192"),
    ):
        with pytest.raises(InvalidValue, match=why):
            parse_boundaries(texts)


@pytest.mark.parametrize("name", ALGORITHMS)
@given(
    st.integers(0, 3), st.lists(st.floats(0, 1e6), min_size=100, max_size=100), st.lists(st.integers(-5, 2 * HASH_MAX), max_size=5)
)
def test_splitting_only_adds_boundaries_in_the_bundle(name: str, index: int, rates: list[float], asked: list[int]) -> None:
    bundle = bundles_of(FOUR)[index]
    inside = {topic: rate for topic, rate in zip(TOPICS, rates, strict=True) if bundle.holds(position_of(topic))}
    after = split(FOUR, bundle, ALGORITHMS[name](bundle, inside, asked))
    assert set(FOUR) <= set(after) and list(after) == sorted(after)
    assert all(bundle.lower < cut < bundle.upper for cut in set(after) - set(FOUR))


def test_each_algorithm_divides_what_it_is_for() -> None:
    whole = Bundle(0, HASH_MAX)
    rates = dict.fromkeys(TOPICS, 1.0)
    (middle,) = ALGORITHMS["range_equally_divide"](whole, rates, [])
    assert middle == 0x7FFFFFFF  # as Pulsar's
    (count,) = ALGORITHMS["topic_count_equally_divide"](whole, rates, [])
    assert [len(topics) for topics in by_bundle((0, count, HASH_MAX), TOPICS).values()] == [50, 50]
    first = min(TOPICS, key=position_of)
    (rate,) = ALGORITHMS["flow_or_qps_equally_divide"](whole, {**rates, first: 99.0}, [])
    assert [len(topics) for topics in by_bundle((0, rate, HASH_MAX), TOPICS).values()] == [1, 99]
    (idle,) = ALGORITHMS["flow_or_qps_equally_divide"](whole, dict.fromkeys(TOPICS, 0.0), [])
    assert idle == count
    assert ALGORITHMS["specified_positions_divide"](whole, rates, [9, 7, 9]) == [7, 9]


@pytest.mark.parametrize("name", ["topic_count_equally_divide", "flow_or_qps_equally_divide"])
@pytest.mark.parametrize("topics", [{}, {TOPICS[0]: 5.0}])
def test_what_cannot_be_divided_stays_whole(name: str, topics: dict[str, float]) -> None:
    assert split(FOUR, Bundle(0, 0x40000000), ALGORITHMS[name](Bundle(0, 0x40000000), topics, [])) == FOUR
    assert split((0, 1, HASH_MAX), Bundle(0, 1), ALGORITHMS["range_equally_divide"](Bundle(0, 1), {}, [])) == (0, 1, HASH_MAX)


def test_there_are_no_more_bundles_than_may_be() -> None:
    most = equal_bundles(BUNDLES_MAX)
    with pytest.raises(PreconditionFailed, match="8192"):
        split(most, bundles_of(most)[0], [1])
