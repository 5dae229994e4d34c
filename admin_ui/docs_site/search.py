"""Search in documents: parts of them, each below a heading, that have all the words."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from admin_ui.docs_site.library import INSIDE, Document, documents, sections
from admin_ui.docs_site.markdown import anchor_of

WORDS_MAX = 8
LENGTH_MAX = 200
FOUND_MAX = 30
_BEFORE, _AFTER = 60, 140  # characters of an excerpt around its first word
_GUIDE = 6  # what a document of use counts before one on decisions, measurements and changes
_HEADING = re.compile(r"^(#{1,6}) (.+)$")
_MARKS = re.compile(r"\[([^\]]*)\]\([^)\s]*\)|[`*|]|-{3,}|^#+ |<!--.*?-->", re.MULTILINE)


class Part(NamedTuple):
    document: Document
    heading: str
    anchor: str
    text: str
    lower: str


class Match(NamedTuple):
    document: Document
    heading: str
    anchor: str
    excerpt: SafeString


class Found(NamedTuple):
    matches: list[Match]
    more: int


def search(query: str) -> Found:
    """The best first: words in the title or heading count more than in the text."""
    words = query[:LENGTH_MAX].lower().split()[:WORDS_MAX]
    if not words:
        return Found([], 0)
    hits = [(score, part) for part in parts() if (score := _score(part, words))]
    hits.sort(key=lambda hit: -hit[0])  # stable: otherwise in the order of the documents
    shown = [Match(part.document, part.heading, part.anchor, _excerpt(part, words)) for _, part in hits[:FOUND_MAX]]
    return Found(shown, max(0, len(hits) - FOUND_MAX))


@cache
def parts() -> list[Part]:
    return [part for document in documents().values() for part in _parts_of(document)]


def _parts_of(document: Document) -> list[Part]:
    """The text between two headings, without marks. A line of a block of code is no heading."""
    heading, anchor, lines, made, fenced = document.title, "", [], [], False
    used: dict[str, int] = {}
    code = document.file.suffix == ".py"
    for line in document.file.read_text(encoding="utf-8").splitlines():
        fenced ^= line.startswith("```")
        found = None if fenced or code else _HEADING.match(line)
        if found is None:
            lines.append(line)
            continue
        if len(found[1]) > 1:
            made.append(_part(document, heading, anchor, lines))
            heading = _MARKS.sub(r"\1", found[2])
            first = anchor_of(heading)
            number = used[first] = used.get(first, -1) + 1
            anchor, lines = f"{first}-{number}" if number else first, []
    return [*made, _part(document, heading, anchor, lines)]


def _part(document: Document, heading: str, anchor: str, lines: list[str]) -> Part:
    text = " ".join(_MARKS.sub(r"\1", "\n".join(lines)).split())
    return Part(document, heading, anchor, text, text.lower())


def _score(part: Part, words: list[str]) -> int:
    total = 0
    title, heading = part.document.title.lower(), part.heading.lower()
    for word in words:
        score = 12 * (word in heading) + 8 * (word in title) + min(part.lower.count(word), 4)
        if not score:
            return 0
        total += score
    return total + _GUIDE * (part.document.address in _guides())


@cache
def _guides() -> set[str]:
    """Documents that people use, not those on how it is made."""
    return {one.address for section in sections() if section.title != INSIDE for one in section.documents}


def _excerpt(part: Part, words: list[str]) -> SafeString:
    places = [place for word in words if (place := part.lower.find(word)) >= 0]
    start = max(0, min(places, default=0) - _BEFORE)
    end = start + _BEFORE + _AFTER
    cut = part.text[start:end]
    pattern = "|".join(re.escape(word) for word in words)
    pieces = re.split(f"({pattern})", cut, flags=re.IGNORECASE)
    marked = format_html_join("", "{}", ((format_html("<mark>{}</mark>", it) if at % 2 else it,) for at, it in enumerate(pieces)))
    return format_html("{}{}{}", "… " if start else "", marked, " …" if end < len(part.text) else "")
