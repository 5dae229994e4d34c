"""What the parts below the console say in English, in the language of the request: errors, reasons and what a job failed of.

Those parts know no request, and APIs and the command line stay in English. So a text comes as it was said, with its values in it.
The catalogues have its sentence with placeholders, in the context `said` (`docs.translations` takes it from the source that says
it), and here the values are found again. What no catalogue knows is shown as it came.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache, lru_cache
from typing import NamedTuple

from django.utils.functional import lazy
from django.utils.translation import get_language

from workers.translation.catalogs import SOURCES, read_po
from workers.translation.figures import exact, local_text, of_language

CONTEXT = "said"
_PLACE = re.compile(r"\{(\w+)\}")
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3}){1,5}")  # a figure as parts below the console write it
_AMOUNT = re.compile(r"-?[0-9][0-9,]*(\.[0-9]+)? ([A-Z]{3}|[KMGTP]iB)")  # of money, or of bytes
_DECIMAL = re.compile(r"[0-9]+\.[0-9]+")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")  # `messaging.times.time_text`
_END = re.compile(r"(?<=\.) (?=[A-Z0-9])")  # between two sentences
_STOP = re.compile(r"(?<!\.)\.$")  # a full stop, which a sentence as a value may lack
_PARTS_MAX, _DEPTH_MAX = 8, 3
NUMBERS = {"count", "messages", "size_bytes", "unowned", "waiting", "times", "more", "dead", "over"}  # values that are nothing else
NUMBERS |= {"wanted", "expected"}
# Values that somebody chose: a tenant may be called `all`, which is no word of ours.
NAMES = {"tenant", "tenant_2", "tenant_id", "namespace", "namespace_2", "topic", "subscription", "consumer", "producer", "role"}
NAMES |= {"team", "username", "email", "rule", "key", "key_id", "plan", "host", "path", "base", "issuer", "broker_id"}
_NUMBER = r"[0-9.,e+]+?"
_BEGINNING = 3  # characters by which sentences are found
_BRIEF = re.compile(r"\{\w+\}( [\w/]+){1,2}|([\w/]+ ){1,2}\{\w+\}")  # up to two words tell it: many a sentence ends in "messages"
_WORDS = re.compile(r"[^\W\d]+,? [^\W\d]")  # two in a row, which no amount has: "3 orders wait", not "1 d 12 h"
_TEXT_MAX = 1_000  # characters; what is longer is shown as it came


class _Sentence(NamedTuple):
    pattern: re.Pattern[str]
    translated: str
    literal: int  # characters that are no values: the more, the better a text is known
    brief: bool  # little more than its value, which must not be a sentence then, unless it is known itself


def said(text: str) -> str:
    """`text` in the language of the request, with times in the person's zone. Its values may be such texts too, as in "topic: why";
    of several sentences each is one by itself."""
    if not text or len(text) > _TEXT_MAX:
        return text
    return _TIME.sub(_local, _kept((get_language() or "en").partition("-")[0], text))


# For constants, which are made before there is a request.
lazily_said = lazy(said, str)


def _local(match: re.Match[str]) -> str:
    try:
        return local_text(datetime.fromisoformat(match[0]))
    except (ValueError, OverflowError):
        return match[0]


@lru_cache(maxsize=2_048)
def _kept(language: str, text: str) -> str:
    sentences = _sentences(language)
    if not sentences:
        return text
    whole = _known(sentences, text, 0)
    if whole is not None:
        return whole
    parts = _END.split(text, _PARTS_MAX)
    return " ".join(_said(sentences, part, 0) for part in parts) if len(parts) > 1 else text


def _said(sentences: Mapping[str, list[_Sentence]], text: str, depth: int, name: str = "") -> str:
    known = _known(sentences, text, depth)
    if known is not None:
        return known
    if depth and _GROUPED.fullmatch(text):
        return exact(int(text.replace(",", "")))
    if depth and (_AMOUNT.fullmatch(text) or (name in NUMBERS and _DECIMAL.fullmatch(text))):
        return of_language(text)
    if not depth:
        return text
    before, colon, after = text.rpartition(": ")
    if colon and (advice := _known(sentences, after, depth)) is not None:
        return f"{_known(sentences, before, depth) or before}: {advice}"
    parts = [_known(sentences, part, depth) for part in text.split(", ", _PARTS_MAX)]
    return text if None in parts else ", ".join(part or "" for part in parts)


def _known(sentences: Mapping[str, list[_Sentence]], text: str, depth: int) -> str | None:
    for sentence in (*sentences.get(text[:_BEGINNING].lower(), ()), *sentences.get("", ())):
        match = sentence.pattern.fullmatch(text)
        if match:
            values = {
                name: _said(sentences, value, depth + 1, name) if depth < _DEPTH_MAX and name not in NAMES else value
                for name, value in match.groupdict().items()
            }
            if sentence.brief and any(_WORDS.search(value) and values[name] == value for name, value in match.groupdict().items()):
                continue
            return _as(text, sentence.translated.format(**values))
    return None


def _as(text: str, translated: str) -> str:
    """A sentence stays one, with its capital and its full stop."""
    if text[:1].isupper():
        translated = translated[:1].upper() + translated[1:]
    return f"{translated}." if text.endswith(".") and not translated.endswith(".") else translated


@cache
def _sentences(language: str) -> Mapping[str, list[_Sentence]]:
    """By how they begin; "": with a value. Those with the most words first."""
    path = SOURCES / language / "LC_MESSAGES" / "django.po"
    if not path.exists():
        return {}
    found: dict[str, list[_Sentence]] = {}
    prefix = f"{CONTEXT}\x04"
    for key, translated in read_po(path.read_text(encoding="utf-8")).items():
        if key.startswith(prefix):
            text = key.removeprefix(prefix)
            literal = _PLACE.split(text)[0]
            beginning = text[:_BEGINNING].lower() if len(literal) >= _BEGINNING else ""
            words = _PLACE.sub("", text)
            brief = _BRIEF.fullmatch(text) is not None
            sentence = _Sentence(_pattern(_STOP.sub("", text)), _STOP.sub("", translated), len(words), brief)
            found.setdefault(beginning, []).append(sentence)
    for sentences in found.values():
        sentences.sort(key=lambda sentence: -sentence.literal)
    return found


def _pattern(text: str) -> re.Pattern[str]:
    """Also as a sentence: with a capital and a full stop. A value ends where what follows it is first found, for good (the last
    ends with the text): to try all ends of several values would take seconds for a text that somebody made up for it."""
    literals, names = _PLACE.split(text)[::2], _PLACE.findall(text)
    first = re.escape(literals[0])
    pattern = f"(?i:{first[:1]}){first[1:]}" if text[:1].isalpha() else first
    seen = set[str]()
    for number, (name, literal) in enumerate(zip(names, literals[1:], strict=True)):
        value = f"(?P={name})" if name in seen else f"(?P<{name}>{_NUMBER if name in NUMBERS else '.+?'})"
        seen.add(name)
        found = f"{value}{re.escape(literal)}"
        pattern += found if number == len(names) - 1 else f"(?>{found})"
    return re.compile(f"{pattern}\\.?", re.DOTALL)
