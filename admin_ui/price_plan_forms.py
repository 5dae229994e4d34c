"""Forms of price plans and of who pays by them. They make documents of plans; `workers.rating.plan` says what is wrong with one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from django import forms

from admin_ui.amount_field import AmountField
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext, gettext_lazy
from workers.rating.money import CURRENCIES
from workers.rating.plan import GRADUATED, PACKAGE, PER_UNIT, VOLUME
from workers.rating.units import METERS, UNITS

MODELS = (
    ("", gettext_lazy("No price")),
    (PER_UNIT, gettext_lazy("Per unit")),
    (GRADUATED, gettext_lazy("Graduated: each tier at its own price")),
    (VOLUME, gettext_lazy("Volume: all at the price of the tier that is reached")),
    (PACKAGE, gettext_lazy("Package: each started one")),
)
LAST_TIER = "above"
UTC_HOUR = gettext_lazy("The start of an hour, UTC, like 2026-04-01 00:00")
_ERROR_IN = re.compile(r"prices\[(\d+)\](?:\.(\w+))?")
_CURRENCIES = [(code, code) for code in sorted(CURRENCIES)]
_NUMBER = {"inputmode": "decimal", "autocomplete": "off"}


class PricePlanForm(forms.Form):
    """A version of a price plan. For each meter there are six fields, `model-bytes_in` and so on."""

    plan = forms.CharField(label="Plan", max_length=63, help_text="A name of a-z, 0-9 and -; it cannot be changed.")
    title = forms.CharField(label="Title", max_length=200, required=False, help_text="As invoices show it.")
    currency = forms.ChoiceField(label="Currency", choices=_CURRENCIES, initial="EUR")
    in_force_from = forms.CharField(label="In force from", max_length=25, help_text=UTC_HOUR)
    base_fee = AmountField(label="Base fee a month", max_length=40, initial="0", widget=forms.TextInput(attrs=_NUMBER))
    minimum = AmountField(
        label="Commitment a month",
        max_length=40,
        initial="0",
        widget=forms.TextInput(attrs=_NUMBER),
        help_text="What a month costs at least, before credits and tax.",
    )
    tenant = forms.ChoiceField(label="Preview with the usage of", required=False, help_text="Of the last month, UTC.")

    def __init__(self, *args: Any, tenants: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choice: Any = self.fields["tenant"]
        choice.choices = [("", gettext("no tenant")), *((name, name) for name in tenants)]
        for name, meter in METERS.items():
            units = [(unit, said(unit)) for unit, one in UNITS.items() if one.dimension == meter.dimension]
            text = forms.TextInput(attrs=_NUMBER)
            tiers = forms.Textarea(attrs={"rows": 3, "autocomplete": "off", "spellcheck": "false"})
            self.fields |= {
                f"model-{name}": forms.ChoiceField(label="Price", choices=MODELS, required=False),
                f"unit-{name}": forms.ChoiceField(label="Unit", choices=units, required=False, initial=_usual(units)),
                f"included-{name}": AmountField(label="Included a month, in units", max_length=40, required=False, widget=text),
                f"price-{name}": AmountField(label="Price of a unit or package", max_length=40, required=False, widget=text),
                f"package-{name}": AmountField(label="Units of a package", max_length=40, required=False, widget=text),
                f"tiers-{name}": forms.CharField(
                    label="Tiers",
                    max_length=2000,
                    required=False,
                    widget=tiers,
                    help_text=gettext(
                        "One a line: up to how many units, the price of one and, if any, a flat fee; the last begins with {above}."
                    ).format(above=LAST_TIER),
                ),
            }

    def meters(self) -> Iterator[dict[str, Any]]:
        """For the page: of each meter its title and fields."""
        for name, meter in METERS.items():
            fields = {part: self[f"{part}-{name}"] for part in ("model", "unit", "included", "price", "package", "tiers")}
            yield {"name": name, "title": said(meter.title), **fields}

    def plain(self) -> Iterator[forms.BoundField]:
        for name in ("plan", "title", "currency", "in_force_from", "base_fee", "minimum"):
            yield self[name]

    def document(self, version: int) -> dict[str, Any]:
        """Of a form that is valid; whether it makes sense is for `plan_from` to say."""
        given = self.cleaned_data
        found = {
            "plan": given["plan"],
            "version": version,
            "title": given["title"] or given["plan"],
            "currency": given["currency"],
            "in_force_from": utc_text(given["in_force_from"]),
            "base_fee": given["base_fee"],
            "minimum": given["minimum"],
        }
        return {**found, "prices": [_price(name, given) for name in self._priced()]}

    def _priced(self) -> list[str]:
        return [name for name in METERS if self.cleaned_data[f"model-{name}"]]

    def blame(self, message: str) -> None:
        """Shows what is wrong with the document at the field that it is about."""
        found = _ERROR_IN.match(message)
        if found is not None:
            name, part = self._priced()[int(found[1])], found[2] or "model"
            about = said(message.replace(f"prices[{found[1]}]", said(METERS[name].title)))
            self.add_error(f"{part}-{name}" if f"{part}-{name}" in self.fields else f"model-{name}", about)
            return
        first = message.partition(" ")[0]
        self.add_error(first if first in self.fields else None, said(message))


def _usual(units: list[tuple[str, str]]) -> str:
    names = [name for name, _ in units]
    return next((name for name in ("GiB", "GiB-month", "million messages") if name in names), names[0])


def _price(meter: str, given: Mapping[str, str]) -> dict[str, Any]:
    model = given[f"model-{meter}"]
    found: dict[str, Any] = {"meter": meter, "model": model, "unit": given[f"unit-{meter}"]}
    if given[f"included-{meter}"]:
        found["included"] = given[f"included-{meter}"]
    if model in (GRADUATED, VOLUME):
        return {**found, "tiers": tiers_of(given[f"tiers-{meter}"])}
    if model == PACKAGE:
        found["package"] = given[f"package-{meter}"]
    return {**found, "price": given[f"price-{meter}"]}


def tiers_of(text: str) -> list[dict[str, str]]:
    """What is no number is kept, for `plan_from` to name."""
    tiers = []
    for line in filter(None, (one.split(None, 2) for one in text.splitlines())):
        edge, *amounts = map(AmountField().to_python, line)
        tier = {} if edge == LAST_TIER else {"up_to": edge}
        tiers.append({**tier, **dict(zip(("price", "flat"), amounts, strict=False))})
    return tiers


def initial_of(document: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a form that makes this document again."""
    found = {name: str(document.get(name, "")) for name in ("plan", "title", "currency", "base_fee", "minimum")}
    found["base_fee"], found["minimum"] = found["base_fee"] or "0", found["minimum"] or "0"
    for price in document.get("prices", ()):
        meter = price["meter"]
        found[f"model-{meter}"] = price.get("model", PER_UNIT)
        found |= {f"{part}-{meter}": price[part] for part in ("unit", "included", "price", "package") if part in price}
        lines = ([one.get("up_to", LAST_TIER), one["price"], one.get("flat", "")] for one in price.get("tiers", ()))
        found[f"tiers-{meter}"] = "\n".join(" ".join(filter(None, line)) for line in lines)
    return found


def utc_text(text: str) -> str:
    """2026-04-01 00:00 as documents have it; what has a time zone stays as it is."""
    written = text.strip().replace(" ", "T")
    return written if written.endswith("Z") or "+" in written else f"{written}Z"


class AssignForm(forms.Form):
    """`starts`: the times that are offered, with what each is; another one is typed."""

    plan = forms.ChoiceField(label="Price plan")
    starts = forms.ChoiceField(
        label="From",
        required=False,
        help_text="Also from a time of this month that is over: what was used since then is rated by the plan. Base fee and "
        "minimum are in proportion to the hours.",
    )
    starts_at = forms.CharField(label="At another time", max_length=25, required=False, help_text=UTC_HOUR)

    def __init__(self, *args: Any, plans: list[tuple[str, str]], starts: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, choices in (("plan", plans), ("starts", [*starts, ("", gettext("another time"))])):
            field: Any = self.fields[name]
            field.choices = choices
        self.initial.setdefault("starts", starts[0][0])

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if not given.get("starts") and not given.get("starts_at"):
            self.add_error("starts_at", gettext("Choose a time, or type another one."))
        given["starts_at"] = given.get("starts_at") or given.get("starts", "")
        return given


class DetailsForm(forms.Form):
    """Who pays, or who is paid: as invoices show it."""

    name = forms.CharField(label="Name", max_length=1000, required=False)
    address = forms.CharField(label="Address", max_length=1000, required=False, widget=forms.Textarea(attrs={"rows": 3}))
    tax_id = forms.CharField(label="Tax ID", max_length=1000, required=False)
    email = forms.EmailField(label="E-mail", max_length=320, required=False)

    def details(self) -> dict[str, str]:
        names = ("name", "address", "tax_id", "email", "bank")
        return {name: self.cleaned_data[name] for name in names if self.cleaned_data.get(name)}


class AccountForm(DetailsForm):
    tax_label = forms.CharField(label="Tax", max_length=40, required=False, help_text="Such as VAT. Empty: none.")
    tax_rate = AmountField(label="Tax rate, per cent", max_length=12, initial="0", widget=forms.TextInput(attrs=_NUMBER))
    payment_days = forms.IntegerField(label="Days to pay", min_value=0, max_value=365, initial=30)


class IssuerForm(DetailsForm):
    bank = forms.CharField(label="Bank account", max_length=1000, required=False, widget=forms.Textarea(attrs={"rows": 2}))
    forgiven_minor = forms.IntegerField(
        label="Forgiven late usage, in cents",
        min_value=0,
        max_value=1_000_000,
        initial=100,
        help_text="Usage that comes after a month was closed is not charged up to this amount.",
    )


class CreditForm(forms.Form):
    title = forms.CharField(label="Title", max_length=200, help_text="As invoices show it.")
    amount = AmountField(label="Amount", max_length=40, widget=forms.TextInput(attrs=_NUMBER))
    currency = forms.ChoiceField(label="Currency", choices=_CURRENCIES, initial="EUR")
    expires = forms.DateField(
        label="Last day", required=False, widget=forms.DateInput(attrs={"type": "date"}), help_text="Empty: it does not expire."
    )
