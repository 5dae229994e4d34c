"""An invoice's document in the words and numbers that people read, in the language that is in use: the same for the console, HTML
and PDF. Computes no money. Texts that a customer or an administrator wrote are as they wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.utils.translation import gettext

from workers.billing.unit_texts import QUANTITY_DIGITS, least_shown, quantity_text
from workers.rating.document import CREDIT_NOTE, DRAFT, time_of
from workers.rating.money import decimal_text
from workers.rating.units import METERS
from workers.translation.figures import in_language, of_language
from workers.translation.said import said

SHARES_MAX = 200  # namespaces shown on paper; the document has them all


@dataclass(frozen=True)
class PresentedLine:
    """`detail`: how the amount came about. `id` finds the line again."""

    id: str
    title: str
    detail: str
    quantity: str
    amount: str
    kind: str


@dataclass(frozen=True)
class Presented:
    heading: str
    facts: tuple[tuple[str, str], ...]
    supplier: tuple[str, ...]
    customer: tuple[str, ...]
    lines: tuple[PresentedLine, ...]
    sums: tuple[tuple[str, str], ...]  # all but the last, which is the total
    total: tuple[str, str]
    note: str
    payment: str
    shares: tuple[tuple[str, str, str, str], ...]  # line, namespace, quantity, amount
    shares_left: int
    draft: bool


def present(document: Mapping[str, Any]) -> Presented:
    currency = document["currency"]
    draft, credit_note = document["state"] == DRAFT, document["kind"] == CREDIT_NOTE
    shares = _shares(document)
    total = (
        gettext("To your credit")
        if document["total"].startswith("-")
        else gettext("Total due")
        if not draft
        else gettext("Total so far"),
        document["total"],
    )
    return Presented(
        heading=gettext("Credit note") if credit_note else gettext("Invoice, draft") if draft else gettext("Invoice"),
        facts=_facts(document, draft=draft),
        supplier=_address(document["supplier"], "Magnetar"),
        customer=_address(document["customer"], document["customer"].get("tenant", "")),
        lines=tuple(_line(line, currency) for line in document["lines"]),
        sums=_sums(document, currency),
        total=(total[0], f"{_money(total[1])} {currency}"),
        note=document["note"],
        payment=_payment(document, draft=draft),
        shares=tuple(shares[:SHARES_MAX]),
        shares_left=max(0, len(shares) - SHARES_MAX),
        draft=draft,
    )


def money(text: str) -> str:
    """`1234567.80` as `1,234,567.80`."""
    return f"{Decimal(text):,}"


_money = in_language(money)


def _facts(document: Mapping[str, Any], *, draft: bool) -> tuple[tuple[str, str], ...]:
    start, end = (time_of(document["period"][edge]) for edge in ("start", "end"))
    last = (end - timedelta(hours=1)).date()
    facts = [(gettext("Number"), gettext("none yet") if draft else document["number"])]
    if document["of_invoice"]:
        facts.append((gettext("For invoice"), document["of_invoice"]))
    if document["issued_at"]:
        facts.append((gettext("Date"), document["issued_at"][:10]))
    facts.append((gettext("Period (UTC)"), gettext("{first} to {last}").format(first=f"{start:%Y-%m-%d}", last=last)))
    if document["due"]:
        facts.append((gettext("Due"), document["due"]))
    return tuple(facts)


def _address(details: Mapping[str, str], otherwise: str) -> tuple[str, ...]:
    lines = [details.get("name") or otherwise, *details.get("address", "").splitlines()]
    if details.get("tax_id"):
        lines.append(gettext("Tax ID {tax_id}").format(tax_id=details["tax_id"]))
    if details.get("email"):
        lines.append(details["email"])
    return tuple(line for line in lines if line)


def _line(line: Mapping[str, Any], currency: str) -> PresentedLine:
    start, end = time_of(line["start"]), time_of(line["end"])
    details = [gettext("{first} to {last}").format(first=f"{start:%Y-%m-%d %H:%M}", last=f"{end:%Y-%m-%d %H:%M}")]
    for tier in line.get("tiers", ()):
        flat = f" + {plain(tier['flat'])}" if tier["flat"] != "0" else ""
        details.append(
            gettext("{units} at {price}").format(units=plain(tier["units"]), price=f"{plain(tier['price'])}{flat} {currency}")
        )
    if line.get("included"):
        details.append(gettext("{quantity} a month included").format(quantity=quantity_text(line["included"], line["unit"])))
    runs = line.get("runs", ())
    if runs:
        details.append(gettext("usage computed later, run {runs}").format(runs=", ".join(runs[:3])))
    quantity = quantity_text(line["quantity"], line["unit"]) if line.get("unit") else ""
    return PresentedLine(line["id"], said(line["title"]), "; ".join(details), quantity, _money(line["amount"]), line["kind"])


def plain(text: str) -> str:
    """A number with at most six digits after the point, cut as quantities are, for a detail: the amount was computed with all of
    them."""
    value = Fraction(text)
    shown = decimal_text(value, QUANTITY_DIGITS)
    if value > 0 and shown == "0":
        return of_language(f"<{least_shown(QUANTITY_DIGITS)}")
    number = of_language(f"{Decimal(shown):,f}")
    return number if Fraction(shown) == value else gettext("about {number}").format(number=number)


def _sums(document: Mapping[str, Any], currency: str) -> tuple[tuple[str, str], ...]:
    sums = [(gettext("Subtotal"), f"{_money(document['subtotal'])} {currency}")]
    for credit in document["credits"]:
        negated = credit["amount"].removeprefix("-") if credit["amount"].startswith("-") else f"-{credit['amount']}"
        sums.append((gettext("Credit: {title}").format(title=credit["title"]), f"{_money(negated)} {currency}"))
    tax = document["tax"]
    if tax["label"]:
        sums.append((f"{tax['label']} {of_language(tax['rate'])} %", f"{_money(tax['amount'])} {currency}"))
    return tuple(sums)


def _payment(document: Mapping[str, Any], *, draft: bool) -> str:
    if draft:
        return gettext("This is a draft: it changes until the month is closed. Nothing is to be paid yet.")
    if document["total"].startswith("-") or not Decimal(document["total"]):
        return gettext("Nothing is to be paid.")
    bank = document["supplier"].get("bank", "")
    amount = f"{_money(document['total'])} {document['currency']}"
    asked = gettext("Please pay {amount} by {due}, naming {number}.")
    return f"{asked.format(amount=amount, due=document['due'], number=document['number'])}\n{bank}".strip()


def _shares(document: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    shares = []
    for line in document["lines"]:
        for share in line.get("namespaces", ()):
            title = METERS[line["meter"]].title if line["meter"] in METERS else line["title"]
            shares.append(
                (
                    said(title),
                    share["namespace"] or gettext("no namespace"),
                    quantity_text(share["quantity"], line["unit"]),
                    _money(share["amount"]),
                )
            )
    return shares
