"""The form of spend caps."""

from __future__ import annotations

from typing import Any

from django import forms

from admin_ui.amount_field import AmountField
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.policies.spending import SPEND_RATES
from workers.rating.money import CURRENCIES
from workers.spend_caps.actions import RATE_MAX
from workers.spend_caps.models import SpendCap

_TITLES = (
    gettext_lazy("Published messages a second"),
    gettext_lazy("Published bytes a second"),
    gettext_lazy("Delivered messages a second"),
    gettext_lazy("Delivered bytes a second"),
)


class SpendCapForm(forms.Form):
    """`platform`: the cap may be the platform's."""

    set_by = forms.ChoiceField(label="Of")
    amount = AmountField(label="Amount a month", max_length=20, help_text="Before credits and tax, like 250.00")
    currency = forms.ChoiceField(label="Currency", choices=[(code, code) for code in sorted(CURRENCIES)], initial="EUR")
    action = forms.ChoiceField(
        label="Once it is reached",
        choices=[
            ("throttle", gettext_lazy("throttle the tenant to these rates")),
            ("stop", gettext_lazy("refuse its producers; what is stored can be consumed")),
        ],
    )

    def __init__(self, data: Any, *, platform: bool) -> None:
        super().__init__(data)
        of = [(SpendCap.SetBy.TENANT.value, gettext("the tenant"))]
        of += [(SpendCap.SetBy.PLATFORM.value, gettext("the platform, which the tenant cannot change"))] if platform else []
        self.fields["set_by"] = forms.ChoiceField(label="Of", choices=of)
        for name, title in zip(SPEND_RATES, _TITLES, strict=True):
            self.fields[name] = forms.IntegerField(label=title, required=False, min_value=0, max_value=RATE_MAX, initial=0)

    def rates(self) -> dict[str, int]:
        return {name: self.cleaned_data.get(name) or 0 for name in SPEND_RATES}
