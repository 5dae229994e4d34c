"""English that is left in a page of another language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser

from docs.translations import ATTRIBUTES
from workers.translation.catalogs import SOURCES, read_po

# Words that German has not, one of which is in nearly every English sentence.
WORDS = re.compile(
    r"\b(?:the|of|is|are|and|or|not|no|to|with|without|from|for|by|it|its|that|this|these|those|has|have|been|be|as|at|on|which|when"
    r"|while|since|yet|only|was|were|you|your|than|there|they|what|who|how|where|if|but|more|less|last|first|any|all|each|every|can"
    r"|cannot|may|use|used|set|ago|unlimited|none|does|do|did|never|now|after|before)\b",
    re.IGNORECASE,
)
BOTH = {"was", "war", "an", "in", "so", "also", "am", "all", "set", "do", "last"}  # German has them, too
NO_TEXT = {"script", "style", "code", "pre", "kbd", "template", "svg", "textarea", "time", "title"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


def english_of(page: str) -> Iterator[str]:
    """Texts and attributes of `page` that are in English."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    for text in reader.texts:
        text = " ".join(text.split())
        if text and is_english(text):
            yield text


def is_english(text: str) -> bool:
    if text in untranslated():
        return True
    words = [word.lower() for word in WORDS.findall(re.sub(r"[\w.:/-]*[/_@:][\w.:/@-]*|[„“”\"'][^„“”\"']*[“”\"']", " ", text))]
    return len([word for word in words if word not in BOTH]) >= 1


@cache
def untranslated() -> frozenset[str]:
    """Texts of the catalogue as they are before they are translated, if that changes them."""
    texts = read_po((SOURCES / "de" / "LC_MESSAGES" / "django.po").read_text(encoding="utf-8"))
    known = {part for text in texts.values() for part in text.split("\x00")}
    keys = {part: text for key, text in texts.items() for part in key.rpartition("\x04")[2].split("\x00")}
    return frozenset(key for key, text in keys.items() if key != text and key not in known)


class _Reader(HTMLParser):
    """Texts between tags, and attributes that people read. What has a language of its own is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._open: list[tuple[str, bool]] = []  # with whether what is in it is no text of ours

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        hidden = (bool(self._open) and self._open[-1][1]) or tag in NO_TEXT or (tag != "html" and "lang" in given)
        hidden = hidden or "mono" in (given.get("class") or "").split()
        if not hidden:
            self.texts += [value for name, value in attrs if name in ATTRIBUTES and value]
            if tag == "input" and given.get("type") == "submit" and given.get("value"):
                self.texts.append(given["value"] or "")
        if tag not in VOID:
            self._open.append((tag, hidden))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open and not self._open[-1][1]:
            self.texts.append(data)
