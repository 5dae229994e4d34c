"""Figures with the separators of the language that is in use, as 1.234,5 in German, and times in the time zone that is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.utils import timezone, translation

_SWAPPED = str.maketrans(",.", ".,")


def in_language(form: Callable[[Any], str]) -> Callable[[Any], str]:
    def written(value: Any) -> str:
        text = form(value)
        return text.translate(_SWAPPED) if translation.get_language() == "de" else text

    return written


def _exact(value: int) -> str:
    return f"{value:,}"


exact = in_language(_exact)  # every digit: for what is billed
of_language = in_language(str)  # of a figure that is text already, as 1,234.50


def local_text(at: datetime) -> str:
    """With its zone: 2026-03-01 14:00:00 CET."""
    return f"{timezone.localtime(at):%Y-%m-%d %H:%M:%S %Z}"
