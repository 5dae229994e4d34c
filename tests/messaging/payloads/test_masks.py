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


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('{"customer": {"email": "ada@example.com"}}', MASK),  # a text that holds what has a name
        (4111, MASK),
        (None, MASK),
        (["4111", {"id": 1}], [MASK, {"id": 1}]),
    ],
)
def test_what_stands_under_no_name_is_hidden_whole(value: Any, expected: Any) -> None:
    assert parse_masks(["$.customer.email"]).shown_value(value) == expected


def test_parts_of_a_key_value_payload_are_hidden_like_payloads() -> None:
    masks = parse_masks(["$..email"])
    texts = {"key": "ada", "value": '{"email": "ada@example.com"}'}
    assert masks.shown_value(texts, key_value=True) == {"key": MASK, "value": MASK}
    fields = {"key": {"id": 1}, "value": {"email": "ada@example.com", "name": "Ada"}}
    assert masks.shown_value(fields, key_value=True) == {"key": {"id": 1}, "value": {"email": MASK, "name": "Ada"}}


def test_fields_that_have_only_numbers_are_hidden() -> None:
    masks = parse_masks(["$.customer.email"])
    value = {"id": 1, "customer": {"2": "ada@example.com"}, "items": [{"7": 1, "sku": "a"}]}
    expected = {"id": 1, "customer": {"2": MASK}, "items": [{"7": MASK, "sku": "a"}]}
    assert masks.shown_value(value, numbered=True) == expected


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
        ("$.customer.email", "$.customer.2", True),  # a field without a name may be any
        ("$.customer.email", "$.3.name", False),
        ("$..email", "$.customer.2", True),
        ("$.customer.email", "$.value", True),  # of a key-value payload: a text that may hold anything
        ("$.customer.email", "$.key[0]", True),
        ("$.customer.email", "$.value.id", False),
        ("$.customer.email", "$[1]", True),
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
