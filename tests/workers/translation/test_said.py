"""What parts below the console say in English is shown in the language of the reader, with its values."""

from __future__ import annotations

import re
import time

import pytest
from django.utils import timezone, translation

from admin_ui.policy_texts import groups
from docs.translations import LANGUAGES, read
from messaging.policies import texts
from messaging.policies.model import Level
from messaging.policies.registry import ENFORCED
from messaging.policies.resolution import defaults
from messaging.settings import Settings
from workers.translation.catalogs import SOURCES
from workers.translation.said import CONTEXT, NUMBERS, said

PLACE = re.compile(r"\{(\w+)\}")


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_sentence_is_known_again_with_values_in_it(language: str) -> None:
    asked = 0
    with translation.override(language):
        for message in read(SOURCES / language / "LC_MESSAGES" / "django.po"):
            if message.context == CONTEXT and isinstance(message.id, str) and isinstance(message.string, str):
                values = {name: f"'{name}-{number}'" for number, name in enumerate(PLACE.findall(message.id))}
                values |= {name: str(number) for number, name in enumerate(PLACE.findall(message.id)) if name in NUMBERS}
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


def test_names_that_somebody_chose_are_not_translated_though_they_are_words_of_ours() -> None:
    with translation.override("de"):
        assert said("all") == "alle"
        for name in ("all", "none", "connections", "yes"):
            assert said(f"tenant {name} does not exist") == f"den Mandanten {name} gibt es nicht"


@pytest.mark.parametrize(
    "unknown",
    [
        "a clerk sorts the paper messages",
        "3 clerks sort the paper messages",
        "Every clerk sorts the paper.",
        "up to now nobody sorts",
        "for nobody that sorts",
        "namespace orders sorts nothing",
    ],
)
def test_a_value_is_no_sentence(unknown: str) -> None:
    """What ends in "messages" was "{value} messages", and half of it German."""
    with translation.override("de"):
        assert said(unknown) == unknown


def test_amounts_of_several_words_are_values() -> None:
    with translation.override("de"):
        for english, german in (("for 1 d 12 h", "für 1 d 12 h"), ("up to 12,000 messages", "bis zu 12.000 Nachrichten")):
            assert said(english) == german
        assert said("up to 1.5 MiB") == "bis zu 1,5 MiB"


def test_one_is_no_plural() -> None:
    policy = ENFORCED["max_namespaces_per_tenant"]
    assert (texts.said(policy, 1), texts.said(policy, 2)) == ("1 namespace", "2 namespaces")
    assert [texts.singular(unit) for unit in ("entries", "messages/s", "keys")] == ["entry", "message/s", "key"]
    with translation.override("de"):
        assert said(texts.said(ENFORCED["max_keys_per_tenant"], 1)) == "1 Schlüssel"
        assert said("1 connection") == "1 Verbindung"


def test_a_text_that_somebody_made_up_takes_no_time() -> None:
    """Several values with a blank between them took 14 seconds for a thousand characters, in which no page was answered."""
    with translation.override("de"):
        said("so that the catalogue is read")
        begin_s = time.thread_time()
        for text in ("x " * 499, "x of tenant " * 83, "tenant x has " * 76, "'x' is " * 142, "x " * 500_000):
            assert said(text) == text
        assert time.thread_time() - begin_s < 3


def test_policies_are_shown_and_searched_in_the_language_of_the_reader() -> None:
    ours = defaults(Settings())
    with translation.override("de"):
        (group,) = groups({}, ours, Level.NAMESPACE, "papierkorb")
        (row,) = group.rows
        assert row.title == "Papierkorb" and "wiederhergestellt" in row.policies[0].meaning
        assert groups({}, ours, Level.NAMESPACE, "recycle bin")[0].rows == [row]


@pytest.mark.parametrize(
    ("english", "german"),
    [
        (
            "No consumer is connected, and 3 entries are not acknowledged.",
            "Kein Consumer ist verbunden, und 3 Einträge sind nicht bestätigt.",
        ),
        (
            "None of the 5 consumers can be sent messages: 3 without permits, 2 not reading the connection.",
            "Keinem der 5 Consumer können Nachrichten gesendet werden: 3 ohne Permits, 2 lesen ihre Verbindung nicht.",
        ),
        (
            "topic t accepts no messages: the backlog of 2 bytes has reached the limit of 1 bytes: consume it, delete a "
            "subscription, or raise the quota",
            "das Topic t nimmt keine Nachrichten an: der Rückstand von 2 Bytes hat die Grenze von 1 Bytes erreicht: "
            "Arbeiten Sie ihn ab, löschen Sie eine Subscription, oder heben Sie die Grenze an",
        ),
        (
            "Clients were refused 4 times. Topic t has a schema, and producers without one are refused (schema_enforced): use "
            "the schema.",
            "Clients wurden 4-mal abgelehnt. Das Topic t hat ein Schema, und Producer ohne eines werden abgelehnt "
            "(schema_enforced): Benutzen Sie das Schema.",
        ),
        (
            "Delivery is at the limit of the topic: dispatch_rate allows 1,000 messages, 5 bytes a second. What exceeds it is "
            "dropped. 1 message was dropped since the subscription was made.",
            "Die Zustellung ist an der Grenze, die auf der Ebene Topic gesetzt ist: dispatch_rate erlaubt 1.000 Nachrichten, "
            "5 Bytes pro Sekunde. Was darüber hinausgeht, wird verworfen. 1 Nachricht wurde verworfen, seit es die "
            "Subscription gibt.",
        ),
        (
            "tenant acme has 5 topics, which is max_topics_per_tenant = 5, set on the tenant: delete unused ones, or "
            "raise it there",
            "Mandant acme hat 5 Topics, das ist max_topics_per_tenant = 5, gesetzt auf der Ebene Mandant: Löschen Sie unbenutzte, "
            "oder heben Sie die Grenze dort an",
        ),
    ],
)
def test_sentences_of_the_broker_are_known_by_their_parts(english: str, german: str) -> None:
    with translation.override("de"):
        assert said(english) == german


def test_times_in_sentences_are_in_the_zone_of_the_reader() -> None:
    text = (
        "3 delayed messages wait for their delivery time. The next is not due before 2026-07-21T14:14:20.000Z. No TTL expires them."
    )
    with timezone.override("Europe/Berlin"):
        assert "not due before 2026-07-21 16:14:20 CEST." in said(text)
        with translation.override("de"):
            assert said(text) == (
                "3 verzögerte Nachrichten warten auf ihre Zustellzeit. Die nächste ist nicht vor 2026-07-21 16:14:20 CEST fällig. "
                "Keine TTL lässt sie ablaufen."
            )
    assert said("the clock of somebody says 9999-99-99T99:99:99.999Z") == "the clock of somebody says 9999-99-99T99:99:99.999Z"
