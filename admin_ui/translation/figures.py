"""Figures with the separators of the language of the request, as 1.234,5 in German, and times in the zone of whoever reads them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.utils import timezone, translation

from admin_ui import formatting
from workers.billing import present

_SWAPPED = str.maketrans(",.", ".,")


def in_language(form: Callable[[Any], str]) -> Callable[[Any], str]:
    def written(value: Any) -> str:
        text = form(value)
        return text.translate(_SWAPPED) if translation.get_language() == "de" else text

    return written


count = in_language(formatting.count)
exact = in_language(formatting.exact)
rate = in_language(formatting.rate)
size = in_language(formatting.size)
span = in_language(formatting.span)
of_language = in_language(str)  # of a figure that is text already, as 1,234.50
money = in_language(present.money)


def local_text(at: datetime) -> str:
    """With its zone: 2026-03-01 14:00:00 CET."""
    return f"{timezone.localtime(at):%Y-%m-%d %H:%M:%S %Z}"
