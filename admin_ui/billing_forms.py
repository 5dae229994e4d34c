"""Forms of budgets, reports and questions about costs."""

from __future__ import annotations

from django import forms

from admin_ui.amount_field import AmountField
from admin_ui.translation.said import lazily_said
from admin_ui.translation.texts import gettext, gettext_lazy
from workers.billing.budget_models import ReportSchedule
from workers.rating.money import CURRENCIES

_EMAILS = gettext_lazy("Separated by commas. Mail needs a mail server (smtp_url).")
RETENTION_DAYS_MAX = 3650


class BudgetForm(forms.Form):
    name = forms.CharField(label="Name", max_length=100)
    amount = AmountField(label="Amount a month", max_length=20, help_text="Before credits and tax, like 250.00")
    currency = forms.ChoiceField(label="Currency", choices=[(code, code) for code in sorted(CURRENCIES)], initial="EUR")
    namespace = forms.CharField(label="Namespace", max_length=600, required=False, help_text="tenant/namespace")
    thresholds = forms.CharField(label="Tell at", max_length=60, initial="50, 80, 100", help_text="Per cent of the amount.")
    emails = forms.CharField(
        label="Mail to",
        max_length=1000,
        required=False,
        help_text=gettext_lazy("Besides where all notices go. Separated by commas. Mail needs a mail server (smtp_url)."),
    )

    def clean_thresholds(self) -> list[int]:
        try:
            return [int(part) for part in str(self.cleaned_data["thresholds"]).split(",") if part.strip()]
        except ValueError:
            raise forms.ValidationError(gettext("Write numbers, separated by commas.")) from None


class ReportForm(forms.Form):
    name = forms.CharField(label="Name", max_length=100)
    every = forms.ChoiceField(
        label="Every",
        choices=[(value, lazily_said(label)) for value, label in ReportSchedule.Every.choices],
        initial="month",
    )
    by = forms.CharField(
        label="Sum by",
        max_length=80,
        initial="namespace",
        help_text="namespace, topic, meter, subscription, key, label:KEY or tenant-label:KEY",
    )
    emails = forms.CharField(label="Mail to", max_length=1000, required=False, help_text=_EMAILS)


class RetentionForm(forms.Form):
    days = forms.IntegerField(label="Days", min_value=0, max_value=RETENTION_DAYS_MAX)
    namespace = forms.CharField(
        label="Namespace (empty: all)",
        max_length=600,
        required=False,
        widget=forms.TextInput(attrs={"list": "namespaces"}),
    )


def addresses(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
