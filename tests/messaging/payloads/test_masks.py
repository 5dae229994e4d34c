"""Masks: what they hide, and which filters would tell it."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.errors import InvalidValue, NotAuthorized
from messaging.payloads.masks import MASK, NO_MASKS, parse_masks
from messaging.payloads.paths import parse_path

ORDER: dict[str, Any] = {
    "id": 4711,
    "customer": {"email": "ada@example.com", "Card_Number": "4111"},
    "items": [{"sku": "a", "price": 1}, {"sku": "b", "price": 2}],
}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], ORDER),
        (["$.id"], ORDER | {"id": MASK}),
        (["$.customer"], ORDER | {"customer": MASK}),
        (["$.customer.*"], ORDER | {"customer": {"email": MASK, "Card_Number": MASK}}),
        (["$.items[*].price"], ORDER | {"items": [{"sku": "a", "price": MASK}, {"sku": "b", "price": MASK}]}),
        (["$.items[1]"], ORDER | {"items": [ORDER["items"][0], MASK]}),
        (["$..card*"], ORDER | {"customer": {"email": "ada@example.com", "Card_Number": MASK}}),
        (["$..PRICE", "$.nothing.here"], ORDER | {"items": [{"sku": "a", "price": MASK}, {"sku": "b", "price": MASK}]}),
        (["payload"], MASK),
    ],
)
def test_values_are_hidden_where_rules_lead(rules: list[str], expected: Any) -> None:
    before = repr(ORDER)
    assert parse_masks(rules).shown_value(ORDER) == expected
    assert repr(ORDER) == before, "what is masked for one is not for the next"


def test_properties_are_hidden_by_name() -> None:
    masks = parse_masks(["property:X-Secret*", "key"])
    assert masks.shown_properties({"x-secret-1": "a", "plain": "b"}) == {"x-secret-1": MASK, "plain": "b"}
    assert masks.key and not masks.of_payload and masks.any and not NO_MASKS.any


@pytest.mark.parametrize(
    ("rule", "path", "hidden"),
    [
        ("$.customer.email", "$.customer.email", True),
        ("$.customer.email", "$.customer", True),  # whether it is there
        ("$.customer.email", "$.customer.*", True),
        ("$.customer.email", "$.*.email", True),
        ("$.customer.email", "$.customer.email.domain", True),
        ("$.customer.email", "$.customer.name", False),
        ("$.customer.email", "$.id", False),
        ("$.items[*].price", "$.items[0].price", True),
        ("$.items[0].price", "$.items['0'].price", True),
        ("$.items[0].price", "$.items[1].price", False),
        ("$..email", "$.customer.EMAIL", True),
        ("$..email", "$.customer.*", True),
        ("$..email", "$.email.domain", True),
        ("$..email", "$.id", False),
        ("payload", "$.id", True),
    ],
)
def test_a_path_to_what_is_hidden_finds_nothing(rule: str, path: str, hidden: bool) -> None:
    masks = parse_masks([rule])
    assert masks.hides_path(parse_path(path)) is hidden
    if hidden:
        with pytest.raises(NotAuthorized):
            masks.check_filter(key=False, property_name="", text=False, path=parse_path(path))
    else:
        masks.check_filter(key=True, property_name="p", text=False, path=parse_path(path))


@pytest.mark.parametrize(
    ("rule", "asked"),
    [("key", {"key": True}), ("property:p*", {"property_name": "P1"}), ("$.a", {"text": True}), ("payload", {"text": True})],
)
def test_other_filters_on_what_is_hidden_are_refused(rule: str, asked: dict[str, Any]) -> None:
    nothing: dict[str, Any] = {"key": False, "property_name": "", "text": False, "path": ()}
    with pytest.raises(NotAuthorized):
        parse_masks([rule]).check_filter(**{**nothing, **asked})
    NO_MASKS.check_filter(**{**nothing, **asked})


@pytest.mark.parametrize("wrong", ["", "email", "property:", "$..", "$..a.b", "$", "$[", "keys"])
def test_a_rule_that_masks_nothing_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidValue):
        parse_masks([wrong])
