"""Forms of policies: a field for each, typed as people write it: 7d, 10 GiB, unlimited."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from admin_ui.forms import pairs_of
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext
from messaging.errors import InvalidValue
from messaging.limits.sizes import PAIRS_TOTAL_BYTES_MAX
from messaging.policies.model import Policy, value_schema
from messaging.policies.texts import is_duration, is_size, parsed, typed
from messaging.policies.validation import valid_value

BEFORE_LENGTH_MAX = 2 * PAIRS_TOTAL_BYTES_MAX  # JSON of the largest, properties
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


class PropertiesField(forms.CharField):
    """Pairs of text, one a line."""

    def __init__(self, **about: Any) -> None:
        about["help_text"] += gettext(" One a line, like team=payments.")
        super().__init__(max_length=PAIRS_TOTAL_BYTES_MAX, widget=forms.Textarea(attrs={**_TYPED, "rows": 6}), **about)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(f"{name}={text}" for name, text in value.items()) if isinstance(value, dict) else value

    def clean(self, value: Any) -> dict[str, str] | None:
        text = super().clean(value)
        return pairs_of(text) if text else None


class LinesField(forms.CharField):
    """A list of texts, one a line."""

    def __init__(self, **about: Any) -> None:
        about["help_text"] += gettext(" One a line. Empty: inherited.")
        super().__init__(max_length=PAIRS_TOTAL_BYTES_MAX, widget=forms.Textarea(attrs={**_TYPED, "rows": 4}), **about)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str] | None:
        text = super().clean(value)
        return [line.strip() for line in text.splitlines() if line.strip()] or None


class SubjectForm(forms.Form):
    """For what may be set of a subject at one level. Empty: not set there. `set_here`: what is set there of all policies.

    `before` is what was set when the form was made: what the person saw who changes it."""

    before = forms.CharField(max_length=BEFORE_LENGTH_MAX, widget=forms.HiddenInput)

    def __init__(self, data: Mapping[str, Any] | None, *, policies: Sequence[Policy], set_here: Mapping[str, Any]) -> None:
        self.policies = policies
        present = {policy.name: set_here[policy.name] for policy in policies if policy.name in set_here}
        super().__init__(data, initial={**present, "before": json.dumps(present)})
        for policy in policies:
            self.fields[policy.name] = policy_field(policy)

    def clean_before(self) -> dict[str, Any]:
        try:
            before = json.loads(self.cleaned_data["before"])
        except (ValueError, RecursionError):
            before = None
        if not isinstance(before, dict):
            raise forms.ValidationError(gettext("What was set before is not readable: load the page again."))
        return before

    def changes(self) -> dict[str, Any]:
        """What was typed in; None for what is to be unset."""
        before = self.cleaned_data["before"]
        given = {policy.name: self.cleaned_data[policy.name] for policy in self.policies}
        return {name: value for name, value in given.items() if value != before.get(name)}

    def look_again(self) -> None:
        """What is set now counts as seen from now on; what was typed stays."""
        self.data = self.data.copy()  # type: ignore[attr-defined]
        self.data["before"] = self.initial["before"]  # type: ignore[index]

    def rows(self) -> list[dict[str, object]]:
        return [{"field": self[policy.name], "unit": unit_text(policy)} for policy in self.policies]


def unit_text(policy: Policy) -> str:
    unit = said(policy.unit)
    if is_duration(policy):
        return gettext("such as 7d, 12h, 30min; a number alone is {unit}").format(unit=unit)
    return gettext("such as 10 GiB; a number alone is {unit}").format(unit=unit) if is_size(policy) else unit


def policy_field(policy: Policy) -> forms.Field:
    schema = value_schema(policy)
    help_text = f"{said(policy.meaning)} {_pulsar(policy)}".rstrip()
    about: dict[str, Any] = {"label": said(policy.title), "help_text": help_text, "required": False}
    if "enum" in schema:
        choices = [("", gettext("Inherited")), *((value, value) for value in schema["enum"])]
        return forms.TypedChoiceField(choices=choices, empty_value=None, **about)
    match schema["type"]:
        case "boolean":
            choices = [("", gettext("Inherited")), ("True", gettext("Yes")), ("False", gettext("No"))]
            return forms.TypedChoiceField(choices=choices, coerce=lambda text: text == "True", empty_value=None, **about)
        case "integer":
            return PolicyField(policy, **about)
        case "number":
            return forms.FloatField(min_value=schema["minimum"], max_value=schema["maximum"], **about)
        case "array" if "enum" not in schema["items"]:
            return LinesField(**about)
        case "array":
            choices = [(value, value) for value in schema["items"]["enum"]]
            several = forms.TypedMultipleChoiceField(
                choices=choices, empty_value=None, widget=forms.CheckboxSelectMultiple, **about
            )
            several.help_text += gettext(" Nothing is chosen: inherited.")
            return several
        case "string":
            text = forms.TextInput(attrs=_TYPED)
            return forms.CharField(max_length=schema["maxLength"], empty_value=None, widget=text, **about)
        case "object":
            return PropertiesField(**about)
    raise TypeError(f"policy {policy.name} has no field")


def _pulsar(policy: Policy) -> str:
    if not policy.path:
        return ""
    return f"Pulsar: {policy.path}.{policy.field}." if policy.field else f"Pulsar: {policy.path}."
