"""A number before a noun has the noun's singular, too: no page says "1 entries"."""

from __future__ import annotations

import re

import pytest

from docs.translations import LANGUAGES, LOCALE, read
from workers.translation.said import CONTEXT

NOUN = (
    "attempts|batches|brokers|bundles|bytes|calls|clients|codes|columns|connections|consumers|days|entries|files|gaps|holes|hours"
    "|keys|libraries|lines|matches|members|messages|minutes|namespaces|notices|outages|partitions|problems|producers|properties|ranges"
    "|records|redeliveries|redrives|roles|rows|runs|schemas|seconds|subscriptions|tasks|tenants|times|topics|versions|weeks"
)
COUNTED = re.compile(rf"(?:%\((\w+)\)s|\{{(\w+)\}})(?:</strong>)? (?:(?:[a-z]+|dead-letter) ){{0,2}}(?:{NOUN})\b")
# What is never one, and why. `_max` is a limit of the console that is more.
NEVER_ONE = {
    "undo_h": "24, as UNDO_H",
    "UNDO_H": "24",
    "quiet_min": "of QUIET",
    "days": "what the page of the month looks back, and is estimated from: outlook.DAYS",
    "hours": "in which a link or a move counts: a day or more",
    "looked_at": "where looking ended: a bound of the dry run",
    "messages": "of a batch, which is shown from two on",
    "messages_per_entry": "with a digit after the point",
    "wanted": "partitions that a topic is given beside its first",
    "searched": "tenants that the palette looks through",
    "broker_id": "a name",
    "name": "a name",
    "titles": "of columns: more than fit",
    "serious": "no number of a noun",
}


TEXTS = [message for message in read(LOCALE / LANGUAGES[0] / "LC_MESSAGES" / "django.po") if message.id]  # as in `found`


def uncounted(text: str) -> set[str]:
    """Values before a noun that is always a plural."""
    names = {first or second for first, second in COUNTED.findall(text)}
    return {name for name in names - NEVER_ONE.keys() if not name.endswith("_max")}


def test_a_number_before_a_noun_has_its_singular() -> None:
    left = {
        f"{', '.join(sorted({place for place, _ in message.locations}))}: {message.id}"
        for message in TEXTS
        if isinstance(message.id, str) and message.context != CONTEXT and uncounted(message.id)
    }
    assert left == set(), "use ngettext, {% blocktranslate count %}, or say the number after the noun: Entries: {entries}"


def test_what_is_never_one_is_said_somewhere() -> None:
    said = {name for message in TEXTS if isinstance(message.id, str) for pair in COUNTED.findall(message.id) for name in pair}
    assert NEVER_ONE.keys() - said <= {"serious"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("%(backlog)s entries", {"backlog"}),
        ("<strong>%(total)s</strong> delayed messages of {topic}", {"total"}),
        ("{count} of {stored} old topics", {"stored"}),
        ("Entries: {entries}; at most {lines_max} lines", set()),
    ],
)
def test_a_plural_without_its_singular_is_found(text: str, names: set[str]) -> None:
    assert uncounted(text) == names
