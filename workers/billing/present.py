"""An invoice's document in the words and numbers that people read: the same for the console, HTML and PDF. Computes no money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from workers.rating.document import CREDIT_NOTE, DRAFT, time_of
from workers.rating.money import decimal_text
from workers.rating.units import METERS, UNITS

QUANTITY_DIGITS = 6
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
        "To your credit" if document["total"].startswith("-") else "Total due" if not draft else "Total so far",
        document["total"],
    )
    return Presented(
        heading="Credit note" if credit_note else "Invoice, draft" if draft else "Invoice",
        facts=_facts(document, draft=draft),
        supplier=_address(document["supplier"], "Magnetar"),
        customer=_address(document["customer"], document["customer"].get("tenant", "")),
        lines=tuple(_line(line, currency) for line in document["lines"]),
        sums=_sums(document, currency),
        total=(total[0], f"{money(total[1])} {currency}"),
        note=document["note"],
        payment=_payment(document, draft=draft),
        shares=tuple(shares[:SHARES_MAX]),
        shares_left=max(0, len(shares) - SHARES_MAX),
        draft=draft,
    )


def money(text: str) -> str:
    """`1234567.80` as `1,234,567.80`."""
    return f"{Decimal(text):,}"


def quantity_text(quantity: int, unit: str, digits: int = QUANTITY_DIGITS) -> str:
    """In the unit of its price, cut to `digits` after the point (`plain` cuts alike); base units where there is none."""
    if unit not in UNITS:
        return f"{quantity:,}"
    text = decimal_text(Fraction(quantity, UNITS[unit].size), digits)
    return f"{Decimal(text):,f} {unit}"


def _facts(document: Mapping[str, Any], *, draft: bool) -> tuple[tuple[str, str], ...]:
    start, end = (time_of(document["period"][edge]) for edge in ("start", "end"))
    last = (end - timedelta(hours=1)).date()
    facts = [("Number", "none yet" if draft else document["number"])]
    if document["of_invoice"]:
        facts.append(("For invoice", document["of_invoice"]))
    if document["issued_at"]:
        facts.append(("Date", document["issued_at"][:10]))
    facts.append(("Period (UTC)", f"{start:%Y-%m-%d} to {last}"))
    if document["due"]:
        facts.append(("Due", document["due"]))
    return tuple(facts)


def _address(details: Mapping[str, str], otherwise: str) -> tuple[str, ...]:
    lines = [details.get("name") or otherwise, *details.get("address", "").splitlines()]
    if details.get("tax_id"):
        lines.append(f"Tax ID {details['tax_id']}")
    if details.get("email"):
        lines.append(details["email"])
    return tuple(line for line in lines if line)


def _line(line: Mapping[str, Any], currency: str) -> PresentedLine:
    start, end = time_of(line["start"]), time_of(line["end"])
    details = [f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"]
    for tier in line.get("tiers", ()):
        flat = f" + {plain(tier['flat'])}" if tier["flat"] != "0" else ""
        details.append(f"{plain(tier['units'])} at {plain(tier['price'])}{flat} {currency}")
    if line.get("included"):
        details.append(f"{quantity_text(line['included'], line['unit'])} a month included")
    runs = line.get("runs", ())
    if runs:
        details.append(f"usage computed later, run {', '.join(runs[:3])}")
    quantity = quantity_text(line["quantity"], line["unit"]) if line.get("unit") else ""
    return PresentedLine(line["id"], line["title"], "; ".join(details), quantity, money(line["amount"]), line["kind"])


def plain(text: str) -> str:
    """A number with at most six digits after the point, cut as quantities are, for a detail: the amount was computed with all of
    them."""
    value = Fraction(text)
    shown = decimal_text(value, QUANTITY_DIGITS)
    return f"{Decimal(shown):,f}" if Fraction(shown) == value else f"about {Decimal(shown):,f}"


def _sums(document: Mapping[str, Any], currency: str) -> tuple[tuple[str, str], ...]:
    sums = [("Subtotal", f"{money(document['subtotal'])} {currency}")]
    for credit in document["credits"]:
        negated = credit["amount"].removeprefix("-") if credit["amount"].startswith("-") else f"-{credit['amount']}"
        sums.append((f"Credit: {credit['title']}", f"{money(negated)} {currency}"))
    tax = document["tax"]
    if tax["label"]:
        sums.append((f"{tax['label']} {tax['rate']} %", f"{money(tax['amount'])} {currency}"))
    return tuple(sums)


def _payment(document: Mapping[str, Any], *, draft: bool) -> str:
    if draft:
        return "This is a draft: it changes until the month is closed. Nothing is to be paid yet."
    if document["total"].startswith("-") or not Decimal(document["total"]):
        return "Nothing is to be paid."
    bank = document["supplier"].get("bank", "")
    amount = f"{money(document['total'])} {document['currency']}"
    return f"Please pay {amount} by {document['due']}, naming {document['number']}.\n{bank}".strip()


def _shares(document: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    shares = []
    for line in document["lines"]:
        for share in line.get("namespaces", ()):
            title = METERS[line["meter"]].title if line["meter"] in METERS else line["title"]
            shares.append(
                (
                    title,
                    share["namespace"] or "no namespace",
                    quantity_text(share["quantity"], line["unit"]),
                    money(share["amount"]),
                )
            )
    return shares
