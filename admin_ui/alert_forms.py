"""Forms of alert rules, silence, and where notices are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

from admin_ui.alert_view import KINDS
from admin_ui.forms import PLAIN
from admin_ui.translation.texts import gettext_lazy
from messaging.protocol.names import NAME_LENGTH_MAX
from workers.alerts.models import AlertRule
from workers.alerts.rule_actions import CHANGEABLE, SILENCE_S_MAX

_VALUE_MAX = 2**62
SILENCES = (
    (3_600, gettext_lazy("1 hour")),
    (4 * 3_600, gettext_lazy("4 hours")),
    (86_400, gettext_lazy("1 day")),
    (7 * 86_400, gettext_lazy("7 days")),
    (SILENCE_S_MAX, gettext_lazy("30 days")),
)


class ThresholdForm(forms.Form):
    """What can be changed of a rule."""

    name = forms.CharField(max_length=200)
    threshold = forms.IntegerField(
        label="Fires at", min_value=1, initial=1000, max_value=_VALUE_MAX, help_text="It fires at this value."
    )
    clear = forms.IntegerField(
        label="Over below", min_value=0, initial=800, max_value=_VALUE_MAX, help_text="It is over below this value."
    )
    hold_s = forms.IntegerField(
        label="For so many seconds", min_value=0, max_value=86_400, initial=60, help_text="How long the value must be there."
    )
    runbook_url = forms.CharField(
        label="Runbook",
        required=False,
        max_length=500,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="https://host/path with what to do when it fires. Sent with each notice.",
    )


class AlertRuleForm(ThresholdForm):
    kind = forms.ChoiceField(choices=KINDS)
    topic = forms.CharField(
        max_length=3 * NAME_LENGTH_MAX,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Full name of a topic that exists: persistent://tenant/namespace/topic. Or a pattern, in which * stands for any "
        "characters: each topic of the namespace that matches fires by itself, the first 100 by name, with 1,000 partitions "
        "together.",
    )
    subscription = forms.CharField(
        required=False, max_length=NAME_LENGTH_MAX, widget=forms.TextInput(attrs=PLAIN), help_text="Empty: any."
    )
    field_order = ("name", "kind", "topic", "subscription", "threshold", "clear", "hold_s", "runbook_url")


class SilenceForm(forms.Form):
    for_s = forms.TypedChoiceField(label="For", choices=SILENCES, coerce=int)
    reason = forms.CharField(required=False, max_length=200, help_text="Is shown beside the rule.")


class NotificationsForm(forms.Form):
    webhook_url = forms.CharField(
        label="Webhook",
        required=False,
        max_length=2000,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="https://host/path. Empty: none.",
    )
    mail_to = forms.CharField(label="Mail to", required=False, max_length=2000, help_text="Addresses, separated by spaces.")
    topic = forms.CharField(
        required=False,
        max_length=3 * NAME_LENGTH_MAX,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="persistent://tenant/namespace/topic, to which you may publish. Each notice is a message of JSON. Empty: none.",
    )


def seen_of(given: Mapping[str, str], rule: AlertRule) -> dict[str, str]:
    """The values of the rule that the page showed; of one that is shown for the first time, those it has."""
    return {name: given.get(f"seen-{name}", str(getattr(rule, name))) for name in CHANGEABLE}


def changed(form: ThresholdForm, seen: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a rule that `form` changes: not those that somebody else changed since they were shown."""
    return {name: form.cleaned_data[name] for name in CHANGEABLE if str(form.cleaned_data[name]) != seen[name]}
