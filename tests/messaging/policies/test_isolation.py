"""Which brokers isolation policies leave for a namespace."""

from __future__ import annotations

import time

import pytest

from messaging.errors import InvalidValue
from messaging.policies.isolation import KNOWN_MAX, Expressions, Isolation, IsolationRules, check_isolation, isolation_from

GOLD = Isolation(("acme/.*",), ("gold-.*",), ("spare-[12]",), 2)
RULES = IsolationRules({"gold": GOLD, "late": Isolation(("acme/orders", "other/x"), ("late",))})
BROKERS = ["b1", "gold-1", "spare-1", "gold-2", "spare-3"]


@pytest.mark.parametrize(
    ("namespace", "running", "expected"),
    [
        ("acme/orders", BROKERS, ["gold-1", "gold-2"]),
        ("acme/orders", ["b1", "gold-1", "spare-1", "spare-3"], ["gold-1", "spare-1"]),  # fewer primaries than min_limit
        ("acme/orders", ["spare-2", "b1"], ["spare-2"]),
        ("acme/orders", ["b1", "spare-3"], []),  # isolation before availability
        ("acme/orders", [], []),
        ("other/things", BROKERS, ["b1", "spare-1", "spare-3"]),  # secondary brokers are shared, primary ones reserved
        ("other/things", ["gold-1"], []),
        ("other/x", ["late", "b1"], ["late"]),
        ("acme", BROKERS, ["b1", "spare-1", "spare-3"]),  # expressions match whole names
        ("xacme/orders", ["gold-1", "b1"], ["b1"]),
    ],
)
def test_brokers_of_a_namespace(namespace: str, running: list[str], expected: list[str]) -> None:
    for _ in range(2):  # the second time from what is remembered
        assert RULES.among(namespace, running) == expected


def test_without_policies_all_brokers_are_left() -> None:
    assert IsolationRules({}).among("acme/orders", ["b", "a"]) == ["b", "a"]


def test_of_several_policies_the_first_by_name_holds() -> None:
    assert RULES.policy_of("acme/orders") == "gold"
    assert IsolationRules({"z": GOLD, "a": GOLD}).policy_of("acme/orders") == "a"


def test_with_a_limit_of_0_secondary_brokers_are_never_used() -> None:
    rules = IsolationRules({"p": GOLD._replace(min_limit=0)})
    assert rules.among("acme/x", ["spare-1"]) == []


def test_why_nobody_may_names_the_policy() -> None:
    assert "isolation policy gold" in RULES.why_nobody("acme/orders")
    assert "reserve all brokers" in RULES.why_nobody("other/things")


def test_what_is_not_served_is_told() -> None:
    assert RULES.problems(["gold-1", "late", "b1"]) == []
    assert RULES.problems(["spare-1", "late"]) == []
    not_named, reserved = RULES.problems(["gold-1"])
    assert "isolation policy late" in not_named and "acme/orders, other/x" in not_named
    assert "without a policy" in reserved
    assert IsolationRules({}).problems(["b1"]) == RULES.problems([]) == []
    (never_used,) = IsolationRules({"p": GOLD._replace(min_limit=0)}).problems(["spare-1"])
    assert "isolation policy p" in never_used


def test_roles_of_a_broker() -> None:
    both = IsolationRules({"p": Isolation(("a/.*",), ("b.*",), (".*",)), "q": Isolation(("c/.*",), ("x",), ("b1",))})
    assert both.roles_of("b1") == {"p": "primary", "q": "secondary"}
    assert both.roles_of("other") == {"p": "secondary"}


def test_what_is_remembered_is_bounded() -> None:
    rules = IsolationRules({"p": GOLD})
    for number in range(KNOWN_MAX + 10):
        assert rules.policy_of(f"acme/{number}") == "p"
    assert rules.policy_of("other/things") == ""


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [
        (GOLD._replace(primary=("a(",)), "'a\\('.*RE2"),
        (GOLD._replace(namespaces=("(?=a)a",)), "RE2"),
        (GOLD._replace(secondary=(r"(a)\1",)), "RE2"),
        (GOLD._replace(namespaces=(r"\pL{1000}\pL{1000}",) * 4), "too much memory"),
        (GOLD._replace(primary=()), "at least one"),
        (GOLD._replace(namespaces=()), "at least one"),
        (GOLD._replace(primary=(" ",)), "empty"),
        (GOLD._replace(min_limit=-1), "min_limit"),
        (GOLD._replace(usage_threshold=101), "usage_threshold"),
    ],
)
def test_what_cannot_be_held_is_refused(isolation: Isolation, expected: str) -> None:
    check_isolation(GOLD)
    with pytest.raises(InvalidValue, match=expected):
        check_isolation(isolation)


def test_no_expression_takes_long_to_match() -> None:
    expressions = Expressions(["(a+)+b", "(a|a)*c", "(.*)*d"])
    begun_s = time.process_time()
    for _ in range(100):
        assert not expressions.match("a" * 500)
    assert time.process_time() - begun_s < 10, "a search that goes back takes for ever"


def test_what_brokers_are_told_is_read_again() -> None:
    assert (
        isolation_from({field: list(value) if isinstance(value, tuple) else value for field, value in GOLD._asdict().items()})
        == GOLD
    )
    assert isolation_from({"namespaces": ["a/.*"], "primary": ["b"]}) == Isolation(("a/.*",), ("b",))
