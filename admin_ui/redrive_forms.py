"""What is redriven, where to and how fast: forms of the console, of one topic and of all dead letters of a tenant."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms

from admin_ui.time_zones import zoned_label
from admin_ui.translation.texts import gettext_lazy
from messaging.protocol.names import NAME_LENGTH_MAX
from workers.redrive import actions


class MoveForm(forms.Form):
    """Where messages that were found go, and how fast."""

    target = forms.CharField(
        label="Target topic",
        required=False,
        max_length=NAME_LENGTH_MAX,
        help_text="persistent://tenant/namespace/topic. Empty: each goes back to the topic of its namespace that it came from.",
    )
    redriven_max = forms.IntegerField(
        label="Redriven at most", initial=3, min_value=0, max_value=1000, help_text="One that was redriven so often stays. 0: any."
    )
    rate = forms.IntegerField(
        label="Messages per second",
        initial=100,
        min_value=0,
        max_value=actions.RATE_MAX,
        help_text="Of each topic, and of each partition. 0: as fast as it goes.",
    )


class FilterFields(forms.Form):
    """Which messages: what both pages ask in a form."""

    key = forms.CharField(label="Key", required=False, max_length=NAME_LENGTH_MAX, help_text="Only messages with this key.")
    property_name = forms.CharField(label="Property", required=False, max_length=NAME_LENGTH_MAX)
    property_value = forms.CharField(label="Value of the property", required=False, max_length=NAME_LENGTH_MAX)


class LettersFilterForm(FilterFields):
    """Of all dead letters; what groups lead to stands in the address beside it."""

    topic = forms.CharField(
        label="Dead-letter topic", required=False, max_length=NAME_LENGTH_MAX, help_text="persistent://tenant/namespace/topic"
    )
    field_order = ["topic", "key", "property_name", "property_value"]


class RedriveForm(FilterFields, MoveForm):
    """Of one topic."""

    subscription = forms.CharField(
        label="Subscription",
        max_length=NAME_LENGTH_MAX,
        initial=actions.SUBSCRIPTION,
        help_text="What it has not acknowledged is moved, and then acknowledged. It must have no consumers.",
    )
    origin_subscription = forms.CharField(label="Dead-lettered from subscription", required=False, max_length=NAME_LENGTH_MAX)
    published_from = forms.DateTimeField(
        label=zoned_label(gettext_lazy("Published from")), required=False, help_text="As 2026-03-01 08:00. Empty: any time."
    )
    published_until = forms.DateTimeField(label=zoned_label(gettext_lazy("Published before")), required=False)
    field_order = [
        "target",
        "subscription",
        "key",
        "property_name",
        "property_value",
        "origin_subscription",
        "published_from",
        "published_until",
        "redriven_max",
        "rate",
    ]

    def asked(self) -> actions.Request:
        given = {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}
        wanted: dict[str, Any] = {
            name: given[name]
            for name in ("key", "property_name", "property_value", "origin_subscription", "redriven_max")
            if name in given
        }
        for name, field in (("from_ms", "published_from"), ("until_ms", "published_until")):
            if field in given:
                wanted[name] = _milliseconds(given[field])
        return actions.Request(given.get("target", ""), given["subscription"], given.get("rate", 0), given=wanted)


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
