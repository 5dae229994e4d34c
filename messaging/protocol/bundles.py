"""Bundles of a namespace: ranges of hashes that divide its topics. Each topic lies in just one of them.

A hash is the CRC-32 of the full topic name, as in Pulsar. The bundles of a namespace are told by their boundaries: n + 1 rising
numbers from 0 to `HASH_MAX`. A bundle is closed below and open above, but for the last one, which is closed. All of it is pure.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias
from zlib import crc32

from messaging.errors import InvalidValue, PreconditionFailed

HASH_MAX = 0xFFFFFFFF
BUNDLES_DEFAULT = 4
BUNDLES_MAX = 8192  # of a namespace

Boundaries: TypeAlias = tuple[int, ...]

_BOUNDARY = re.compile(r"0x([0-9a-fA-F]{1,8})")
_RANGE = re.compile(r"0x0{0,32}([0-9a-fA-F]{1,8})_0x0{0,32}([0-9a-fA-F]{1,8})")


class Bundle(NamedTuple):
    """A range of hashes."""

    lower: int
    upper: int

    def __str__(self) -> str:
        return f"0x{self.lower:08x}_0x{self.upper:08x}"

    def holds(self, position: int) -> bool:
        return self.lower <= position < self.upper or position == self.upper == HASH_MAX


def position_of(topic: str) -> int:
    """The hash of a full topic name."""
    return crc32(topic.encode())


def equal_bundles(count: int) -> Boundaries:
    """Boundaries of `count` bundles of the same size, as Pulsar cuts them. Raises `PreconditionFailed`."""
    if not 0 < count <= BUNDLES_MAX:
        raise PreconditionFailed(f"Invalid number of bundles: a namespace has from 1 to {BUNDLES_MAX}, not {count}")
    size = (HASH_MAX + 1) // count
    return (*(size * index for index in range(count)), HASH_MAX)


def parse_boundaries(texts: Sequence[str]) -> Boundaries:
    """Of ``0x…`` texts in any order. Raises `InvalidValue`, in Pulsar's words."""
    given = []
    for text in texts:
        match = _BOUNDARY.fullmatch(text)
        if match is None:
            raise InvalidValue(f"{text[:40]!r} is no boundary of a bundle: write a hash such as 0x40000000")
        given.append(int(match[1], 16))
    boundaries = tuple(sorted(set(given)))
    if len(boundaries) < 2 or (boundaries[0], boundaries[-1]) != (0, HASH_MAX):
        ends = f"first:0x{boundaries[0]:08x}, last:0x{boundaries[-1]:08x}" if boundaries else "there are none"
        raise InvalidValue(f"Input bundles do not cover the whole hash range, which is 0x00000000 to 0xffffffff. {ends}")
    if len(boundaries) - 1 > BUNDLES_MAX:
        raise InvalidValue(f"a namespace has up to {BUNDLES_MAX} bundles, not {len(boundaries) - 1}")
    return boundaries


def bundles_of(boundaries: Boundaries) -> list[Bundle]:
    return [Bundle(lower, upper) for lower, upper in pairwise(boundaries)]


def bundle_of(boundaries: Boundaries, topic: str) -> Bundle:
    """The one that a topic of this full name lies in."""
    index = min(bisect_right(boundaries, position_of(topic)), len(boundaries) - 1)
    return Bundle(boundaries[index - 1], boundaries[index])


def bundle_from(text: str) -> Bundle:
    """As `str` of a bundle writes it. Raises `InvalidValue`."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise InvalidValue(f"{text[:40]!r} is no bundle: write a range such as 0x00000000_0x40000000")
    return Bundle(int(match[1], 16), int(match[2], 16))


def parse_bundle(boundaries: Boundaries, namespace: str, text: str) -> Bundle:
    """The bundle of `namespace` that is called ``0x…_0x…``. Raises `PreconditionFailed`, in Pulsar's words."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise PreconditionFailed(f"Invalid bundle range: {text[:80]}")
    asked = Bundle(int(match[1], 16), int(match[2], 16))
    index = bisect_left(boundaries, asked.lower)
    if asked.lower >= asked.upper or boundaries[min(index, len(boundaries) - 1)] != asked.lower:
        raise PreconditionFailed(f"Cannot find bundle {namespace}/{asked} in the bundles list")
    bundle = Bundle(boundaries[index], boundaries[index + 1])
    if bundle != asked:
        raise PreconditionFailed(
            f"Invalid upper boundary for bundle {namespace}/{asked}. Expected upper boundary of {namespace}/{bundle}"
        )
    return bundle


def by_bundle(boundaries: Boundaries, topics: Iterable[str]) -> dict[Bundle, list[str]]:
    """All bundles with the topics that lie in each."""
    inside: dict[Bundle, list[str]] = {bundle: [] for bundle in bundles_of(boundaries)}
    for topic in topics:
        inside[bundle_of(boundaries, topic)].append(topic)
    return inside


# --- splitting ----------------------------------------------------------------------------------------------------------------
#
# An algorithm takes the bundle, its topics with their rates in messages a second, and positions that were asked for. It returns
# where to cut; nothing if there is nowhere.

Algorithm: TypeAlias = Callable[[Bundle, Mapping[str, float], Sequence[int]], list[int]]


def _in_the_middle(bundle: Bundle, rates: Mapping[str, float], asked: Sequence[int]) -> list[int]:
    return [(bundle.lower + bundle.upper) // 2]


def _by_count(bundle: Bundle, rates: Mapping[str, float], asked: Sequence[int]) -> list[int]:
    """As many topics on each side."""
    positions = sorted(map(position_of, rates))
    middle = len(positions) // 2
    return [(positions[middle - 1] + positions[middle]) // 2 + 1] if len(positions) > 1 else []


def _by_rate(bundle: Bundle, rates: Mapping[str, float], asked: Sequence[int]) -> list[int]:
    """As many messages on each side, as nearly as whole topics allow; as many topics, where no messages flow."""
    total = sum(rates.values())
    if not total:
        return _by_count(bundle, rates, asked)
    order = sorted((position_of(topic), rate) for topic, rate in rates.items())
    below, best, cut = 0.0, total, 0
    for (position, rate), (following, _) in pairwise(order):
        below += rate
        if abs(total - 2 * below) < best:
            best, cut = abs(total - 2 * below), (position + following) // 2 + 1
    return [cut] if cut else []


def _where_asked(bundle: Bundle, rates: Mapping[str, float], asked: Sequence[int]) -> list[int]:
    return sorted(set(asked))


ALGORITHMS: dict[str, Algorithm] = {
    "range_equally_divide": _in_the_middle,
    "topic_count_equally_divide": _by_count,
    "flow_or_qps_equally_divide": _by_rate,
    "specified_positions_divide": _where_asked,
}
ALGORITHM_DEFAULT = "range_equally_divide"


def algorithm_of(name: str) -> Algorithm:
    """Raises `PreconditionFailed`, in Pulsar's words."""
    if name not in ALGORITHMS:
        raise PreconditionFailed(
            f"Unsupported namespace bundle split algorithm, supported algorithms are [{', '.join(ALGORITHMS)}]: not {name[:80]!r}"
        )
    return ALGORITHMS[name]


def split(boundaries: Boundaries, bundle: Bundle, cuts: Iterable[int]) -> Boundaries:
    """With the bundle cut there. Cuts outside it are passed over; without any the boundaries stay as they are, as in Pulsar. Raises
    `PreconditionFailed` if there would be too many."""
    inside = {cut for cut in cuts if bundle.lower < cut < bundle.upper}
    if len(boundaries) - 1 + len(inside) > BUNDLES_MAX:
        raise PreconditionFailed(f"a namespace has up to {BUNDLES_MAX} bundles: {len(boundaries) - 1} of them are there already")
    return tuple(sorted({*boundaries, *inside}))
