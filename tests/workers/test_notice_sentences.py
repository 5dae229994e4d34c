"""What notices say is found again by its sentences, with figures and months as the language writes them."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from django.utils import translation

from workers import mail
from workers.alerts import sentences
from workers.translation.said import said

AT = datetime(2026, 3, 4, 15, 30, tzinfo=UTC)
TOPIC = "persistent://acme/shop/orders"
CAP = ("acme", "1,070.50 EUR", False, 87, 80, "931.20 EUR", date(2026, 3, 1), AT, sentences.spend_cap_then(""))
GERMAN = {
    sentences.alert_title("waits", "", firing=True, was_silenced=False): "Alarm 'waits' ausgelöst",
    sentences.alert_title("waits", "orders", firing=True, was_silenced=False): "Alarm 'waits' ausgelöst: orders",
    sentences.alert_title("waits", "orders", firing=True, was_silenced=True): (
        "Alarm 'waits' ist ausgelöst und war stummgeschaltet: orders"
    ),
    sentences.alert_title("waits", "", firing=False, was_silenced=False): "Alarm 'waits' ist vorbei",
    sentences.alert_text("backlog_age_s", f"{TOPIC} s", 90, 60, 30, []): (
        f"Alter des Rückstands in Sekunden von {TOPIC} s: 90; die Schwelle ist 60, und vorbei ist es unter 30."
    ),
    sentences.alert_text("no_consumer", TOPIC, 2, 1, 1, [(0, 1), (2, 1)]): (
        f"Kein Consumer von {TOPIC}: 2; die Schwelle ist 1, und vorbei ist es unter 1. "
        "Von den Partitionen: Partition 0: 1, Partition 2: 1."
    ),
    sentences.alert_gone(TOPIC, left_out=False): f"{TOPIC}: Das Topic gibt es nicht mehr, oder es passt nicht mehr.",
    sentences.key_expires("app", "app@acme", 1, AT).title: "Der Schlüssel 'app' läuft in weniger als 1 Tag ab",
    sentences.key_expires("app", "app@acme", 7, AT).title: "Der Schlüssel 'app' läuft in weniger als 7 Tagen ab",
    sentences.budget("all", "acme", "acme/shop", date(2026, 3, 1), "931.20 EUR", "1000.00 EUR", 80, likely=False).text: (
        "Mandant acme für den Namespace acme/shop: Der März 2026 hat 931,20 EUR gekostet, also mindestens 80 % des Budgets 'all' "
        "(1000,00 EUR), vor Guthaben und Steuer."
    ),
    sentences.spend_cap(*CAP).title: "Ausgabengrenze von 1.070,50 EUR: 87 % verbraucht",
    sentences.spend_cap(*CAP).text: (
        "Der Mandant acme hat im März 2026 931,20 EUR ausgegeben (Verbrauch bis 2026-03-04 15:30 UTC, vor Guthaben und Steuer), "
        "also mindestens 80 % der Ausgabengrenze von 1.070,50 EUR, die der Mandant gesetzt hat. Bei 100 % werden Producer "
        "abgelehnt, und was gespeichert ist, kann empfangen werden."
    ),
    sentences.mail_limit("", 5, date(2026, 3, 4)).title: "Heute wird keine E-Mail mehr gesendet",
    sentences.silenced(AT): "nicht gesendet: stummgeschaltet bis 2026-03-04 15:30 UTC",
    sentences.published(TOPIC): f"nach {TOPIC} veröffentlicht",
    mail.NOT_SET_UP: "keine E-Mail gesendet: smtp_url ist nicht gesetzt",
    "answered 200": "antwortete 200",
}  # fmt: skip
WITHOUT_ENGLISH = (
    *sentences.key_expires("app", "app@acme", 7, AT),
    *sentences.ceiling("acme", "tenant_topics_max", "Topics", "80 topics", "100 topics", 80, 80),
    *sentences.budget("all", "acme", "", date(2026, 3, 1), "931.20 EUR", "1000.00 EUR", 80, likely=True),
    *sentences.disk("/data", 91, 12_345, 90, 80, firing=True),
    *sentences.disk("/data", 71, 12_345, 90, 80, firing=False),
    *sentences.mail_limit("acme", 5, date(2026, 3, 4)),
    *sentences.mail_limit("", 5, date(2026, 3, 4)),
    *sentences.webhook_limit("acme", 5, date(2026, 3, 4)),
    *sentences.test("user:olga"),
    sentences.alert_gone(TOPIC, left_out=True),
    sentences.mails_used_up(5),
    sentences.calls_used_up(5),
    sentences.NOBODY_LEFT,
)


@pytest.mark.parametrize("text", GERMAN)
def test_a_sentence_is_said_in_german(text: str) -> None:
    assert said(text) == text
    with translation.override("de"):
        assert said(text) == GERMAN[text]


@pytest.mark.parametrize("text", WITHOUT_ENGLISH)
def test_nothing_is_left_in_english(text: str) -> None:
    with translation.override("de"):
        german = said(text)
    assert not {"the", "is", "and", "of", "it"} & {*german.lower().replace(",", "").split()}, german
    assert german != text


def test_figures_of_a_sentence_are_written_as_the_language_does() -> None:
    with translation.override("de"):
        assert "12,1 GiB sind frei" in said(sentences.disk("/data", 91, 12_345, 90, 80, firing=True).text)
        assert "345 MiB sind frei" in said(sentences.disk("/data", 91, 345, 90, 80, firing=True).text)


def test_each_kind_of_rule_has_words() -> None:
    from workers.alerts.models import AlertRule

    assert sentences.KINDS.keys() == set(AlertRule.Kind.values)
