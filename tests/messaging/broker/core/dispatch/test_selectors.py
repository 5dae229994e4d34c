"""Who owns which hashes: the examples of Pulsar's documentation, and what a Pulsar 4.0.8 broker said in its stats."""

from __future__ import annotations

from random import Random

import pytest

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.key_shared_mode import KeySharedMode
from messaging.broker.core.dispatch.selectors.consistent_hashing import ConsistentHashingSelector
from messaging.broker.core.dispatch.selectors.hash_range import HashRangeSelector
from messaging.broker.core.dispatch.selectors.selector import Selector, owner_of, ranges_by_consumer, slot_of
from messaging.broker.core.dispatch.selectors.sticky_ranges import StickyRangesSelector
from messaging.errors import ConsumerAssign
from messaging.protocol.hot import HASH_MAX
from messaging.protocol.hot.keyed import murmur
from tests.support.worlds.subscription_world import Sink

ORDER = "Order-3459134"


def hash_of(key: str) -> int:
    data = key.encode()
    return murmur(data, 0, len(data))


def consumer(name: str, *ranges: tuple[int, int]) -> Consumer:
    made = Consumer(1, name, Sink())
    made.key_shared = KeySharedMode(sticky=bool(ranges), ranges=ranges)
    return made


def add(selector: Selector, *consumers: Consumer) -> None:
    for consumer in consumers:
        selector.check(consumer)
        selector.add(consumer)


def ranges(selector: Selector) -> dict[str, list[tuple[int, int]]]:
    return {consumer.name: ranges_of_it for consumer, ranges_of_it in ranges_by_consumer(selector).items()}


def owner(selector: Selector, key: str) -> str:
    owner_now = owner_of(selector.slot_map(), slot_of(selector, hash_of(key)))
    assert owner_now is not None
    return owner_now.name


def test_the_hash_of_the_documented_key() -> None:
    assert hash_of(ORDER) == 3112179635 & HASH_MAX
    assert slot_of(HashRangeSelector(), hash_of(ORDER)) == 6067


def test_a_hash_range_is_split_and_merged_as_the_documentation_draws_it() -> None:
    selector = HashRangeSelector()
    c1, c2, c3, c4 = (consumer(f"C{number}") for number in range(1, 5))
    add(selector, c1)
    assert ranges(selector) == {"C1": [(0, 65536)]}
    add(selector, c2)
    assert ranges(selector) == {"C2": [(0, 32768)], "C1": [(32769, 65536)]}
    add(selector, c3)
    assert ranges(selector) == {"C3": [(0, 16384)], "C2": [(16385, 32768)], "C1": [(32769, 65536)]}
    add(selector, c4)
    assert ranges(selector) == {"C3": [(0, 16384)], "C2": [(16385, 32768)], "C4": [(32769, 49152)], "C1": [(49153, 65536)]}
    assert owner(selector, ORDER) == "C3"
    selector.remove(c4)
    assert ranges(selector) == {"C3": [(0, 16384)], "C2": [(16385, 32768)], "C1": [(32769, 65536)]}
    selector.remove(c1)
    assert ranges(selector) == {"C3": [(0, 16384)], "C2": [(16385, 65536)]}


def test_a_hash_range_is_not_split_below_one_hash() -> None:
    selector = HashRangeSelector()
    first, second = consumer("a"), consumer("b")
    add(selector, first, second)
    selector.remove(first)
    assert ranges(selector) == {"b": [(0, 65536)]}
    selector.remove(second)
    assert selector.slot_map() == []


def test_the_points_of_the_documented_consumer() -> None:
    """The hashes are those of the documentation; Pulsar 4 puts other texts on its ring."""
    name = "orders-aggregator-pod-2345-consumer"
    assert [hash_of(f"{name}{number}") for number in (1, 2, 100)] == [1003084738, 373317202, 320276078]


def test_points_on_the_ring_are_those_of_pulsar_4() -> None:
    def points(name: str) -> list[int]:
        return [hash_of(f"{name}\0{0}\0{number}") % 65535 + 1 for number in range(5)]

    assert points("c1") == [34662, 61273, 23534, 54464, 29173]
    assert points("c2") == [18701, 2959, 61677, 13833, 43465]
    selector = ConsistentHashingSelector(100)
    add(selector, *(consumer(name) for name in ("c1", "c2", "c3")))
    bounds = [bound for bound, _ in selector.slot_map()]
    assert set(points("c1") + points("c2")) <= set(bounds)
    assert bounds[-1] == 65535
    assert len(bounds) == 299 + (65535 not in points("c1"))  # the last one closes the ring


def test_three_consumers_own_what_they_own_in_pulsar_4() -> None:
    selector = ConsistentHashingSelector(100)
    add(selector, *(consumer(name) for name in ("c1", "c2", "c3")))
    keys = {
        "c1": ["key1", "key02", "hello", "test", "キー", "é"],
        "c2": ["a", "k2", "key01", "Hello, Pulsar", "p-0", "p-18"],  # the last two: messages 0 and 18 of producer p, without a key
        "c3": ["key", "key-0", "my-key", "k1", "key2", "order-42"],
    }
    for name, owned in keys.items():
        assert [owner(selector, key) for key in owned] == [name] * len(owned)
    slots_of = ranges(selector)
    assert {name: len(of_one) for name, of_one in slots_of.items()} == {"c1": 72, "c2": 59, "c3": 66}
    assert slots_of["c1"][:4] == [(1, 1031), (1479, 1870), (2083, 2137), (2185, 2409)]
    assert slots_of["c1"][-2:] == [(64477, 64838), (65132, 65535)]
    assert slots_of["c2"][:4] == [(1032, 1424), (1998, 2082), (2410, 2959), (3727, 3987)]
    assert slots_of["c3"][-2:] == [(64400, 64476), (64839, 65131)]


def test_leaving_the_ring_changes_nothing_between_the_others() -> None:
    selector = ConsistentHashingSelector(100)
    first, second, third = consumer("same"), consumer("same"), consumer("other")
    add(selector, first, second, third)
    before = {slot: owner_of(selector.slot_map(), slot) for slot in range(1, 65536, 7)}
    assert {first, second, third} == set(before.values())  # consumers of one name have points of their own
    selector.remove(first)
    after = {slot: owner_of(selector.slot_map(), slot) for slot in before}
    assert all(after[slot] is owned for slot, owned in before.items() if owned is not first)
    add(selector, first)
    assert {slot: owner_of(selector.slot_map(), slot) for slot in before} == before


def test_of_two_on_one_point_the_first_has_it_until_it_leaves() -> None:
    selector = ConsistentHashingSelector(1000)
    consumers = [consumer(f"c{number}") for number in range(40)]
    add(selector, *consumers)
    bounds = len(selector.slot_map())
    assert bounds < 40_000  # some points are shared
    for member in consumers[1:]:
        selector.remove(member)
    assert {owner for _, owner in selector.slot_map()} == {consumers[0]}
    selector.remove(consumers[0])
    assert selector.slot_map() == []


def test_sticky_ranges_as_documented() -> None:
    selector = StickyRangesSelector()
    add(selector, consumer("C1", (0, 16383), (32768, 49151)), consumer("C2", (16384, 32767), (49152, 65535)))
    assert ranges(selector) == {"C1": [(0, 16383), (32768, 49151)], "C2": [(16384, 32767), (49152, 65535)]}
    assert owner(selector, ORDER) == "C1"


def test_sticky_ranges_may_leave_hashes_to_nobody() -> None:
    selector = StickyRangesSelector()
    only = consumer("a", (100, 200), (201, 300))
    add(selector, only)
    owned = [owner_of(selector.slot_map(), slot) for slot in (0, 99, 100, 200, 201, 300, 301, 65535)]
    assert owned == [None, None, only, only, only, only, None, None]
    selector.remove(only)
    add(selector, consumer("b", (0, 65535)))


@pytest.mark.parametrize(
    "asked",
    [
        (),
        ((200, 100),),
        ((-1, 5),),
        ((65530, 65536),),
        ((50, 60), (60, 70)),
        ((100, 100),),
        ((0, 100),),
        ((150, 160),),
        ((200, 65535),),
        ((0, 65535),),
    ],
)
def test_ranges_that_are_none_or_are_taken_are_refused(asked: tuple[tuple[int, int], ...]) -> None:
    selector = StickyRangesSelector()
    add(selector, consumer("holder", (100, 200)))
    other = consumer("b")
    other.key_shared = KeySharedMode(sticky=True, ranges=asked)
    with pytest.raises(ConsumerAssign):
        selector.check(other)
    assert ranges(selector) == {"holder": [(100, 200)]}


@pytest.mark.parametrize(("selector", "slots"), [(HashRangeSelector(), 65536), (ConsistentHashingSelector(1), 65535)])
def test_no_hash_has_slot_0(selector: Selector, slots: int) -> None:
    assert {slot_of(selector, key_hash) for key_hash in (0, slots, slots - 1, HASH_MAX)} <= set(range(1, 65536))
    assert slot_of(selector, 0) == 1


def test_a_ring_that_is_kept_in_order_is_the_one_that_its_members_would_make_anew() -> None:
    """Making it anew at each change stopped the loop for a tenth of a second where there are hundreds of consumers."""
    random, kept, members = Random(7), ConsistentHashingSelector(100), list[Consumer]()
    for _ in range(300):
        if members and random.random() < 0.4:
            kept.remove(members.pop(random.randrange(len(members))))
        else:
            members.append(consumer(f"c{random.randrange(40)}"))
            kept.add(members[-1])
    bounds, owners = kept.slot_table()
    assert list(bounds) == sorted(set(bounds))
    assert bounds[-1] == kept.slots and owners[-1] is owners[0]
    assert set(owners) == set(members), "and nobody else"
    for member in list(members):
        before = owner_of(kept.slot_map(), 12_345)
        kept.remove(member)
        after = owner_of(kept.slot_map(), 12_345)
        assert (after is before) == (before is not member)
    assert kept.slot_map() == []


class Compared(int):
    """A hash that counts how often it is compared."""

    count = 0

    def __lt__(self, other: int) -> bool:
        Compared.count += 1
        return int.__lt__(self, other)

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return int.__eq__(self, other)

    __hash__ = int.__hash__


@pytest.mark.parametrize("each", [1, 200])
def test_consumers_with_sticky_ranges_come_and_leave_without_comparing_each_with_all_others(each: int) -> None:
    """Seen: the loop stood for 1 to 7.6 seconds when the highest of 60 consumers with 1,024 ranges left."""
    selector = StickyRangesSelector()
    count = 2_000 // each
    consumers = []
    for number in range(count):
        newcomer = consumer(f"c{number}")
        ranges = tuple((Compared(number + count * index),) * 2 for index in range(each))
        newcomer.key_shared = KeySharedMode(sticky=True, ranges=ranges)
        consumers.append(newcomer)
    Compared.count = 0
    add(selector, *consumers)
    for member in reversed(consumers[1:]):
        selector.remove(member)
    assert {owned for _, owned in selector.slot_map()} == {consumers[0], None}
    assert Compared.count < 40 * 2_000 + 4 * count * 2_000 * (each > 1)
    first = consumers[0].key_shared.ranges
    assert ranges_by_consumer(selector) == {consumers[0]: list(first)}
