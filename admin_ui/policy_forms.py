"""The form of policies: one field for each whose value is simple, typed as people write it: 7d, 10 GiB, unlimited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

from messaging.errors import InvalidValue
from messaging.policies.model import Level, Policy, value_schema
from messaging.policies.registry import ENFORCED
from messaging.policies.texts import is_duration, is_size, parsed, typed
from messaging.policies.validation import valid_value

_TYPED = {"autocomplete": "off", "spellcheck": "false"}


class PolicyField(forms.CharField):
    """A whole number: a time, a size or a count."""

    def __init__(self, policy: Policy, **about: Any) -> None:
        self.policy = policy
        super().__init__(max_length=100, widget=forms.TextInput(attrs=_TYPED), **about)

    def prepare_value(self, value: Any) -> Any:
        return typed(self.policy, value) if isinstance(value, int) else value

    def clean(self, value: Any) -> int | None:
        text = super().clean(value)
        if not text:
            return None
        try:
            number: int = valid_value(self.policy, parsed(self.policy, text))
        except InvalidValue as error:
            raise forms.ValidationError(error.message[:1].upper() + error.message[1:] + ".") from None
        return number


class PoliciesForm(forms.Form):
    """For the enforced policies that may be set at `level`. Empty: not set there. `held`: what is set there."""

    def __init__(self, data: Mapping[str, Any] | None, *, level: Level, held: Mapping[str, Any]) -> None:
        super().__init__(data, initial=dict(held))
        self.level = level
        for name, policy in ENFORCED.items():
            field = policy_field(policy) if level in policy.levels else None
            if field is not None:
                self.fields[name] = field

    def rows(self) -> list[dict[str, object]]:
        return [{"field": self[name], "unit": unit_text(ENFORCED[name])} for name in self.fields]


def unit_text(policy: Policy) -> str:
    if is_duration(policy):
        return f"such as 7d, 12h, 30min; a number alone is {policy.unit}"
    return f"such as 10 GiB; a number alone is {policy.unit}" if is_size(policy) else policy.unit


def policy_field(policy: Policy) -> forms.Field | None:
    """None for lists and objects, which can only be set over REST."""
    schema = value_schema(policy)
    about: dict[str, Any] = {"label": policy.title, "help_text": f"{policy.meaning} {_pulsar(policy)}".rstrip(), "required": False}
    if "enum" in schema:
        choices = [("", "Inherited"), *((value, value) for value in schema["enum"])]
        return forms.TypedChoiceField(choices=choices, empty_value=None, **about)
    match schema["type"]:
        case "boolean":
            choices = [("", "Inherited"), ("True", "Yes"), ("False", "No")]
            return forms.TypedChoiceField(choices=choices, coerce=lambda text: text == "True", empty_value=None, **about)
        case "integer":
            return PolicyField(policy, **about)
        case "number":
            return forms.FloatField(min_value=schema["minimum"], max_value=schema["maximum"], **about)
    return None


def _pulsar(policy: Policy) -> str:
    if not policy.path:
        return ""
    return f"Pulsar: {policy.path}.{policy.field}." if policy.field else f"Pulsar: {policy.path}."
