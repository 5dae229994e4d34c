"""The languages in which people are told something; programs are always answered in English."""

from __future__ import annotations

from typing import Literal

Language = Literal["en", "de"]
ENGLISH: Language = "en"
LANGUAGES: dict[Language, str] = {"en": "English", "de": "Deutsch"}  # each by its own name
