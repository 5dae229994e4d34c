"""The form above a topic's messages. Each field is a parameter of the page's address: a link shows the same to somebody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django import forms

from admin_ui.time_zones import zoned_label
from messaging.adminrpc.browse import TEXT_BYTES_MAX
from messaging.payloads.filters import COMPARISONS
from messaging.payloads.reading import FORMATS

BEGINNINGS = (
    ("newest", "The newest"),
    ("oldest", "The oldest"),
    ("time", "A time"),
    ("message", "A message id"),
    ("subscription", "A subscription"),
)
_COMPARISON_TEXTS = {
    "eq": "is",
    "ne": "is not",
    "contains": "contains",
    "gt": "is more than",
    "lt": "is less than",
    "exists": "exists",
}
_FORMAT_TEXTS = {"auto": "By schema", "json": "JSON", "avro": "Avro", "protobuf": "Protobuf", "text": "Text", "cbor": "CBOR"}
_FORMAT_TEXTS |= {"msgpack": "MessagePack", "hex": "Hexadecimal"}


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

    begin = _choice("Begin with", BEGINNINGS)
    at = _text("At", "2026-03-01 14:00, 12:7, or a name")
    key = _text("Key")
    text = _text("Payload contains")
    path = _text("Field", "$.order.id")
    compare = _choice("Compare", _COMPARISON_CHOICES)
    value = _text("Value", "4711")
    property_is = _text("Property", "NAME or NAME=VALUE")
    published_from = _text(zoned_label("Published from"), "2026-03-01 14:00")
    published_until = _text(zoned_label("Published before"), "2026-03-01 15:00")
    format = _choice("Show payloads as", _FORMAT_CHOICES)
    columns = _text("Columns", "id, who.name")


def first_fields(form: forms.Form) -> list[forms.BoundField]:
    return [field for field in form.visible_fields() if field.name not in FURTHER]


def further_fields(form: forms.Form) -> list[forms.BoundField]:
    return [form[name] for name in FURTHER]


def uses_further(given: Mapping[str, str]) -> bool:
    return any(given.get(name) not in (None, "", "auto") for name in FURTHER)
