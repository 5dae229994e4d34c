"""The form above a topic's messages. Each field is a parameter of the page's address: a link shows the same to somebody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django import forms

from admin_ui.time_zones import zoned_label
from admin_ui.translation.texts import gettext_lazy
from messaging.adminrpc.browse import TEXT_BYTES_MAX
from messaging.payloads.filters import COMPARISONS
from messaging.payloads.reading import FORMATS

BEGINNINGS = (
    ("newest", gettext_lazy("The newest")),
    ("oldest", gettext_lazy("The oldest")),
    ("time", gettext_lazy("A time")),
    ("message", gettext_lazy("A message id")),
    ("subscription", gettext_lazy("A subscription")),
)
_COMPARISON_TEXTS = {
    "eq": gettext_lazy("is"),
    "ne": gettext_lazy("is not"),
    "contains": "contains",
    "gt": gettext_lazy("is more than"),
    "lt": gettext_lazy("is less than"),
    "exists": "exists",
}
_FORMAT_TEXTS = {
    "auto": gettext_lazy("By schema"),
    "json": "JSON",
    "avro": "Avro",
    "protobuf": gettext_lazy("Protobuf"),
    "text": gettext_lazy("Text"),
    "cbor": "CBOR",
}
_FORMAT_TEXTS |= {"msgpack": gettext_lazy("MessagePack"), "hex": gettext_lazy("Hexadecimal")}


def _text(label: str, placeholder: str = "") -> forms.CharField:
    widget = forms.TextInput(attrs={"class": "input", "placeholder": placeholder, "autocomplete": "off", "spellcheck": "false"})
    return forms.CharField(label=label, required=False, max_length=TEXT_BYTES_MAX, strip=False, widget=widget)


def _choice(label: str, choices: Sequence[tuple[str, str]]) -> forms.ChoiceField:
    return forms.ChoiceField(label=label, required=False, choices=choices, widget=forms.Select(attrs={"class": "input"}))


_COMPARISON_CHOICES = [(name, _COMPARISON_TEXTS[name]) for name in COMPARISONS]
_FORMAT_CHOICES = [(name, _FORMAT_TEXTS[name]) for name in FORMATS]
FURTHER = ("property_is", "published_from", "published_until", "format", "columns")  # folded away


FIELDS = ("begin", "at", "key", "text", "path", "compare", "value", *FURTHER)


class SearchForm(forms.Form):
    """Each field is a parameter of the page's address."""

    begin = _choice(gettext_lazy("Begin with"), BEGINNINGS)
    at = _text(gettext_lazy("At"), gettext_lazy("2026-03-01 14:00, 12:7, or a name"))
    key = _text(gettext_lazy("Key"))
    text = _text(gettext_lazy("Payload contains"))
    path = _text(gettext_lazy("Field"), "$.order.id")
    compare = _choice(gettext_lazy("Compare"), _COMPARISON_CHOICES)
    value = _text(gettext_lazy("Value"), "4711")
    property_is = _text(gettext_lazy("Property"), gettext_lazy("NAME or NAME=VALUE"))
    published_from = _text(zoned_label(gettext_lazy("Published from")), "2026-03-01 14:00")
    published_until = _text(zoned_label(gettext_lazy("Published before")), "2026-03-01 15:00")
    format = _choice(gettext_lazy("Show payloads as"), _FORMAT_CHOICES)
    columns = _text(gettext_lazy("Columns"), "id, who.name")


def first_fields(form: forms.Form) -> list[forms.BoundField]:
    return [field for field in form.visible_fields() if field.name not in FURTHER]


def further_fields(form: forms.Form) -> list[forms.BoundField]:
    return [form[name] for name in FURTHER]


def uses_further(given: Mapping[str, str]) -> bool:
    return any(given.get(name) not in (None, "", "auto") for name in FURTHER)
