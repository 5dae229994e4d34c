"""Figures of the console with the separators of the language of the request, and times in the zone of whoever reads them."""

from __future__ import annotations

from admin_ui import formatting
from workers.billing import present
from workers.translation.figures import exact as exact
from workers.translation.figures import in_language
from workers.translation.figures import local_text as local_text
from workers.translation.figures import of_language as of_language

count = in_language(formatting.count)
percent = in_language(formatting.percent)
rate = in_language(formatting.rate)
size = in_language(formatting.size)
span = in_language(formatting.span)
money = in_language(present.money)
