"""Patterns of topic names: what matches, what is left to the client, and that no pattern takes long."""

from __future__ import annotations

import time

import pytest

from messaging.broker.core.topics.pattern import TopicPattern, matching
from messaging.errors import NotAllowed

NAMES = [
    "persistent://t/n/l-1",
    "persistent://t/n/l-2-partition-0",
    "persistent://t/n/l-2-partition-1",
    "persistent://t/n/m-1",
    "persistent://t/n/x-partition-07",
]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("persistent://t/n/l-.*", NAMES[:3]),
        ("t/n/l-.*", NAMES[:3]),
        ("persistent://t/n/l-2", NAMES[1:3]),  # its partitions
        ("persistent://t/n/l-2-partition-0", []),
        ("persistent://t/n/l", []),  # the whole name
        ("l-.*", []),
        ("persistent://t/n/(l|m)-1", [NAMES[0], NAMES[3]]),
        ("persistent://t/n/x-partition-07", NAMES[4:]),  # the name of no partition
    ],
)
def test_a_pattern_matches_whole_names_of_topics(pattern: str, matched: list[str]) -> None:
    assert matching(pattern, NAMES) == matched


@pytest.mark.parametrize("pattern", ["t/n/(a", "t/n/l-(?=1).*", r"t/n/(.)\1", "((a{100}){100}){100}", "(a?){999}" * 3, "t/n/*+"])
def test_patterns_that_re2_refuses_are_left_to_the_client(pattern: str) -> None:
    assert matching(pattern, NAMES) is None
    with pytest.raises(NotAllowed, match="RE2"):
        TopicPattern(pattern)


@pytest.mark.parametrize("pattern", ["(x+x+)+y", "((x*)*)*y", "(x|x|x)*y", "(.*)(.*)(.*)(.*)(.*)y"])
def test_no_pattern_takes_long(pattern: str) -> None:
    """Each of these takes a backtracking engine longer than anybody waits."""
    names = [f"persistent://{'x' * 250}{number}" for number in range(1000)]
    began = time.process_time()
    assert matching(pattern, names) == []
    assert time.process_time() - began < 2
