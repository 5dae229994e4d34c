"""What `magnetar tune`, its API and its page in the console answer: one function behind the three. Pure.

From what producers send and, where they are given, the settings that they have now: the settings to use with the reason of each,
what contradicts itself in those they have, and what a day would save.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from messaging.client.arguments import producer_options
from messaging.client.producing.options import ProducerOptions
from messaging.client.savings import Savings, TopicTraffic, savings
from messaging.client.tuning import Setting, Traffic, advise, contradictions, filled_by

MEMORY_BYTES_MAX = 64 << 20  # what `connect` gives its producers unless it is told otherwise
ComparedWith = Literal["messages_per_entry", "own_settings", "unbatched"]
IN_WORDS: dict[ComparedWith, str] = {  # after a number of messages in an entry
    "messages_per_entry": "as producers batch now",
    "own_settings": "by the settings that producers have now",
    "unbatched": "if each is sent alone: how producers batch now is not known",
}


@dataclass(frozen=True, slots=True)
class TuneQuestion:
    """`own`: of `messaging.limits.tuning.OWN_SETTINGS` those that the producers set now, the others have their defaults; empty:
    nothing is known of them. Prices in one currency: of a GiB of traffic, and of an hour of a processor; None: not known."""

    traffic: TopicTraffic
    latency_ms: float = 10.0
    keyed: bool = False
    own: Mapping[str, Any] = field(default_factory=dict)
    gib_price: float | None = None
    cpu_hour_price: float | None = None


@dataclass(frozen=True, slots=True)
class TuneReport:
    """`contradictions` are those of the own settings, `warnings` what there is to know about the advised ones.

    `compared_with`: how producers batch now, by which the savings are counted. Either as it was measured or given, or as their
    settings make it, or, where nothing is known of it, as if each message were sent alone. `money` None: no price is known.
    """

    traffic: TopicTraffic
    settings: tuple[Setting, ...]
    warnings: tuple[str, ...]
    contradictions: tuple[str, ...]
    compared_with: ComparedWith
    messages_per_entry: float
    saved_a_day: Savings
    money: float | None

    def as_json(self) -> dict[str, Any]:
        """As the API answers it, and ``--json`` prints it: `money` is among what is saved."""
        shape = asdict(self)
        shape["saved_a_day"]["money"] = shape.pop("money")
        return shape


def tune(question: TuneQuestion) -> TuneReport:
    """Raises `InvalidValue` for numbers that are not positive, and for own settings that no producer takes."""
    given, own = question.traffic, question.own
    traffic = given.traffic(question.latency_ms, keyed=question.keyed)
    options = _options(own)
    advice = advise(traffic)
    compared_with, now = _now(given, options if own else None, traffic)
    saved = savings(replace(given, messages_per_entry=now), traffic, advice)
    return TuneReport(
        given,
        advice.settings,
        advice.warnings,
        tuple(_contradictions(own, options, traffic)) if own else (),
        compared_with,
        now,
        saved,
        saved.money(question.gib_price, question.cpu_hour_price),
    )


def _options(own: Mapping[str, Any]) -> ProducerOptions:
    return producer_options(**{name: value for name, value in own.items() if name != "memory_bytes_max"})


def _now(given: TopicTraffic, options: ProducerOptions | None, traffic: Traffic) -> tuple[ComparedWith, float]:
    if given.messages_per_entry is not None:
        return "messages_per_entry", given.messages_per_entry
    if options is not None:
        return "own_settings", filled_by(options, traffic)
    return "unbatched", 1.0


def _contradictions(own: Mapping[str, Any], options: ProducerOptions, traffic: Traffic) -> list[str]:
    warnings = contradictions(options, own.get("memory_bytes_max", MEMORY_BYTES_MAX), traffic)
    if options.batch is None:
        unused = [name for name in own if name.startswith("batch_")]
        warnings += [f"{name} = {own[name]} never counts: batching is off" for name in unused]
    return warnings
