"""Amounts that people type, as their language writes them."""

from __future__ import annotations

import re
from typing import Any

from django import forms

from admin_ui.translation.figures import of_language

_WITH_COMMA = re.compile(r"(-?(?:\d{1,3}(?:\.\d{3})+|\d+)),(\d+)", re.ASCII)


class AmountField(forms.CharField):
    """A decimal number as text with a point, as `workers.rating.money` reads it. Where a language writes 1.234,50, that is one,
    too. What is no number stays as it is, for whoever reads it to say so."""

    def to_python(self, value: Any) -> str:
        text = str(super().to_python(value))
        found = _WITH_COMMA.fullmatch(text) if of_language(".") == "," else None
        return text if found is None else f"{found[1].replace('.', '')}.{found[2]}"
