"""What each step is called, and where the broker stands on it, in the language of the reader."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from admin_ui.templatetags.console import moment, register
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext_lazy
from messaging.adminrpc.diagnosis import ExplainStep
from messaging.problems.steps import TEXTS, Facts, Step, StepState

TITLES: dict[str, str] = {
    Step.PUBLISHED: gettext_lazy("Published"),
    Step.TOPIC: gettext_lazy("Topic"),
    Step.SPENDING: gettext_lazy("Spend cap"),
    Step.ENCRYPTION: gettext_lazy("Encryption"),
    Step.SCHEMA: gettext_lazy("Schema"),
    Step.MESSAGE_SIZE: gettext_lazy("Message size"),
    Step.STORED_BYTES: gettext_lazy("Stored by the tenant"),
    Step.BACKLOG_QUOTA: gettext_lazy("Backlog quota"),
    Step.PUBLISH_RATE: gettext_lazy("Publish rate"),
    Step.DEDUPLICATION: gettext_lazy("Deduplication"),
    Step.SUBSCRIPTION: gettext_lazy("Subscription"),
    Step.BACKLOG: gettext_lazy("Backlog"),
    Step.EXPIRY: gettext_lazy("Expiry"),
    Step.CONSUMER: gettext_lazy("Consumer"),
    Step.ACTIVE_CONSUMER: gettext_lazy("Active consumer"),
    Step.DELAY: gettext_lazy("Delivery time"),
    Step.DISPATCH_RATE: gettext_lazy("Dispatch rate"),
    Step.READING: gettext_lazy("Reading"),
    Step.KEYS: gettext_lazy("Keys"),
    Step.CONNECTION: gettext_lazy("Connection"),
    Step.PERMITS: gettext_lazy("Permits"),
    Step.CONSUMER_UNACKED: gettext_lazy("Unacked of a consumer"),
    Step.SUBSCRIPTION_UNACKED: gettext_lazy("Unacked of all"),
    Step.ACKNOWLEDGEMENT: gettext_lazy("Acknowledgement"),
    Step.REDELIVERY: gettext_lazy("Redelivery"),
    Step.DEAD_LETTERS: gettext_lazy("Dead letters"),
}
STATES: dict[str, tuple[str, str]] = {  # what is shown, and the style of the badge
    StepState.OPEN: (gettext_lazy("passes"), "badge-good"),
    StepState.SLOWS: (gettext_lazy("holds some"), "badge-warn"),
    StepState.SHUT: (gettext_lazy("holds all"), "badge-bad"),
    StepState.NONE: (gettext_lazy("nothing here"), ""),
    StepState.UNKNOWN: (gettext_lazy("not reached"), ""),
}
_LEVELS: dict[str, str] = {
    "subscription": gettext_lazy("subscription"),
    "topic": gettext_lazy("topic"),
    "namespace": gettext_lazy("namespace"),
    "tenant": gettext_lazy("tenant"),
    "broker": gettext_lazy("broker"),
}


def title_of(step: str) -> str:
    """A step of a later release of the broker has its own name."""
    return str(TITLES[step]) if step in TITLES else step


def state_of(step: str, state: str) -> tuple[str, str]:
    """What expired is held by nothing: it is gone."""
    word, style = STATES.get(state, (state, ""))
    if step == Step.EXPIRY and state == StepState.SLOWS:
        word = gettext("removed some")
    return str(word), style


def level_of(level: str) -> str:
    return str(_LEVELS[level]) if level in _LEVELS else level


def sentence_of(step: ExplainStep) -> str | SafeString:
    """The broker's sentence with figures and moments as the reader has them; as it came, where the broker says something new."""
    text = TEXTS.get(step.code)
    if text is None:
        return said(step.sentence)
    try:
        return format_html(gettext(text), **_shown(step.facts))
    except (KeyError, IndexError, ValueError):
        return said(step.sentence)


def _shown(facts: Facts) -> dict[str, str | SafeString]:
    shown = {name: _fact(name, value) for name, value in facts.items()}
    amounts = []
    if "limit_messages" in facts:
        most = float(facts["limit_messages"])
        amounts.append(ngettext("{count} message", "{count} messages", 1 if most == 1 else 2).format(count=_figure("rate", most)))
    amounts += [_figure("size", facts["limit_bytes"])] if "limit_bytes" in facts else []
    return {"limit": ", ".join(amounts)} | shown


def _fact(name: str, value: str | float) -> str | SafeString:
    if name == "level":
        return level_of(str(value))
    if isinstance(value, str):
        return said(value) if name == "why" else value
    if name.endswith("_ms"):
        return moment(int(value))
    if name.endswith("_bytes"):
        return _figure("size", value)
    return _figure("span" if name.endswith("_s") else "exact", value)


def _figure(form: str, value: str | float) -> str:
    return str(register.filters[form](value))
