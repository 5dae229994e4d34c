"""What parts below the console say in English is shown in the language of the reader, with its values."""

from __future__ import annotations

import re
import time

import pytest
from django.utils import translation

from admin_ui.policy_texts import groups
from admin_ui.translation.catalogs import SOURCES
from admin_ui.translation.said import CONTEXT, said
from docs.translations import LANGUAGES, read
from messaging.policies.model import Level

PLACE = re.compile(r"\{(\w+)\}")


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_sentence_is_known_again_with_values_in_it(language: str) -> None:
    asked = 0
    with translation.override(language):
        for message in read(SOURCES / language / "LC_MESSAGES" / "django.po"):
            if message.context == CONTEXT and isinstance(message.id, str) and isinstance(message.string, str):
                values = {name: f"'{name}-{number}'" for number, name in enumerate(PLACE.findall(message.id))}
                assert said(message.id.format(**values)) == message.string.format(**values)
                asked += 1
    assert asked > 400


def test_a_sentence_stays_one_and_what_is_not_known_stays_as_it_came() -> None:
    assert said("tenant 'a' does not exist") == "tenant 'a' does not exist"
    with translation.override("de"):
        assert said("tenant 'a' does not exist") == "den Mandanten 'a' gibt es nicht"
        assert said("Tenant 'a' does not exist.") == "Den Mandanten 'a' gibt es nicht."
        assert said("up to 12,000 messages") == "bis zu 12.000 Nachrichten"
        for text in ("", "nobody said this before", "x" * 5_000):
            assert said(text) == text


def test_a_text_that_somebody_made_up_takes_no_time() -> None:
    """Several values with a blank between them took 14 seconds for a thousand characters, in which no page was answered."""
    with translation.override("de"):
        said("so that the catalogue is read")
        begin_s = time.thread_time()
        for text in ("x " * 499, "x of tenant " * 83, "tenant x has " * 76, "'x' is " * 142, "x " * 500_000):
            assert said(text) == text
        assert time.thread_time() - begin_s < 0.5


@pytest.mark.django_db
def test_policies_are_shown_and_searched_in_the_language_of_the_reader() -> None:
    with translation.override("de"):
        (group,) = groups({}, Level.NAMESPACE, "papierkorb")
        (row,) = group.rows
        assert row.title == "Papierkorb" and "wiederhergestellt" in row.policies[0].meaning
        assert groups({}, Level.NAMESPACE, "recycle bin")[0].rows == [row]
