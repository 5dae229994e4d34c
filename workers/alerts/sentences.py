"""What notices say, and how sending one went: in English, as they are kept. Whoever is sent or shown one has it in their language
by `workers.translation.said`, which finds each of these sentences again: none is put together of less than whole ones.

Pure. Each function gives the title and the text of a notice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import NamedTuple


class Sentences(NamedTuple):
    title: str
    text: str


# --- alert rules ---

KINDS = {
    "backlog_entries": "Backlog entries",
    "backlog_bytes": "Backlog bytes",
    "backlog_age_s": "Backlog age in seconds",
    "no_consumer": "No consumer",
    "blocked": "Blocked subscription",
    "messages_grow": "New messages",
    "publish_throttled": "Producers held back",
}


def alert_title(rule: str, topic: str, *, firing: bool, was_silenced: bool) -> str:
    """`topic`: of a rule with a pattern."""
    if was_silenced:
        return f"Alert {rule!r} fires, and was silenced: {topic}" if topic else f"Alert {rule!r} fires, and was silenced"
    if firing:
        return f"Alert {rule!r} fired: {topic}" if topic else f"Alert {rule!r} fired"
    return f"Alert {rule!r} is over: {topic}" if topic else f"Alert {rule!r} is over"


def alert_text(kind: str, of: str, value: int, threshold: int, over: int, partitions: Sequence[tuple[int, int]]) -> str:
    """`kind`: of `AlertRule.Kind`. `partitions`: (index, value), as many as are said."""
    text = f"{KINDS[kind]} of {of} is {value}; the threshold is {threshold}, and it is over below {over}."
    if not partitions:
        return text
    largest = ", ".join(f"partition {index}: {count}" for index, count in partitions)
    return " ".join((text, f"Of its partitions, {largest}."))


def alert_gone(topic: str, *, left_out: bool) -> str:
    if left_out:
        return (
            f"{topic}: it does not exist any more, or does not match, or is not looked at any more, since more topics match than a "
            "rule looks at."
        )
    return f"{topic}: it does not exist any more, or does not match."


# --- keys, ceilings, money ---


def key_expires(name: str, role: str, days: int, expires_at: datetime) -> Sentences:
    return Sentences(
        f"Key {name!r} expires within 1 day" if days == 1 else f"Key {name!r} expires within {days} days",
        f"The key {name} ({role}) expires at {expires_at:%Y-%m-%d %H:%M} UTC. Create another with the same name, give it to its "
        "clients, and revoke this one.",
    )


def ceiling(tenant: str, policy: str, title: str, used: str, limit: str, percent: int | None, threshold: int) -> Sentences:
    return Sentences(
        f"{title}: {percent} % used",
        f"Tenant {tenant} uses {used} of {policy} = {limit}, which is at least {threshold} %. At 100 % what is new is refused, or "
        "waits where it is a rate: use less, or have an administrator of the platform raise it.",
    )


def budget(
    name: str, tenant: str, namespace: str, month: date, spent: str, whole: str, threshold: int, *, likely: bool
) -> Sentences:
    """`spent`, `whole`: with their currency."""
    title = f"Budget {name!r}: {threshold} % likely" if likely else f"Budget {name!r}: {threshold} %"
    of = f"which is at least {threshold} % of the budget {name!r} ({whole}), before credits and tax"
    if likely:
        text = (
            f"Tenant {tenant} for namespace {namespace}: {month:%B %Y} is likely to cost {spent}, {of}."
            if namespace
            else f"Tenant {tenant}: {month:%B %Y} is likely to cost {spent}, {of}."
        )
    else:
        text = (
            f"Tenant {tenant} for namespace {namespace}: {month:%B %Y} has cost {spent}, {of}."
            if namespace
            else f"Tenant {tenant}: {month:%B %Y} has cost {spent}, {of}."
        )
    return Sentences(title, text)


def spend_cap(
    tenant: str,
    money: str,
    of_platform: bool,
    percent: int,
    threshold: int,
    spent: str,
    month: date,
    until: datetime | None,
    then: str,
) -> Sentences:
    """`money`: of the cap. `then`: what becomes of the tenant at 100 %."""
    usage = f"usage up to {until:%Y-%m-%d %H:%M} UTC" if until else "no usage yet"
    if of_platform:
        text = (
            f"Tenant {tenant} has spent {spent} in {month:%B %Y} ({usage}, before credits and tax), which is at least "
            f"{threshold} % of the spend cap of {money} that the platform has set. At 100 % {then}."
        )
    else:
        text = (
            f"Tenant {tenant} has spent {spent} in {month:%B %Y} ({usage}, before credits and tax), which is at least "
            f"{threshold} % of the spend cap of {money} that the tenant has set. At 100 % {then}."
        )
    return Sentences(f"Spend cap of {money}: {percent} % used", text)


def spend_cap_then(rates: str) -> str:
    """`rates`: to which the tenant is throttled; "": it is stopped."""
    if rates:
        return f"the tenant is throttled to {rates} a second"
    return "producers are refused, and what is stored can be consumed"


# --- the platform ---


def disk(path: str, used_percent: int, free_mib: int, fires: int, over: int, *, firing: bool) -> Sentences:
    free = f"{free_mib:,} MiB" if free_mib < 1024 else f"{free_mib / 1024:,.1f} GiB"
    return Sentences(
        "The disk is nearly full" if firing else "The disk has room again",
        f"{used_percent} % of the disk of {path} are used, {free} are free. This is said at {fires} %, and it is over "
        f"below {over} %. When the disk is full, publishing is refused until there is room: shorten retention, let consumers catch "
        "up, or enlarge the disk.",
    )


# --- sending ---

CHANNELS = ("mail", "topic", "webhook", "silenced")


def mail_limit(tenant: str, most: int, day: date) -> Sentences:
    reached = (
        f"Tenant {tenant} has reached its limit of {most} mails on {day} (UTC): notices and reports are in the console."
        if tenant
        else f"The platform has reached its limit of {most} mails on {day} (UTC): notices and reports are in the console."
    )
    webhooks, raising = "Webhooks are called all the same.", "An administrator of the platform may raise tenant_mails_per_day_max."
    return Sentences("No further mail is sent today", " ".join((reached, webhooks, raising)))


def webhook_limit(tenant: str, most: int, day: date) -> Sentences:
    return Sentences(
        "The webhook is not called for rules with a pattern any more today",
        f"Alert rules with a pattern called the webhook of tenant {tenant} {most} times on {day} (UTC), which is the limit: what "
        "else they say today is in the console. Other rules call it all the same. Raise their thresholds, or name topics; an "
        "administrator of the platform may raise pattern_webhooks_per_day_max.",
    )


def test(by: str) -> Sentences:
    return Sentences(
        "This is a test notice", f"{by} asked for it. What alerts, budgets and keys that expire have to say comes here."
    )


def silenced(until: datetime) -> str:
    return f"not sent: silenced until {until:%Y-%m-%d %H:%M} UTC"


def mails_used_up(most: int) -> str:
    return f"no mail was sent: the limit of {most} mails a day is reached"


NOBODY_LEFT = "no mail was sent: the memberships of those who were to get it have ended"


def calls_used_up(most: int) -> str:
    return f"not called: the limit of {most} calls a day by rules with a pattern is reached"


def published(topic: str) -> str:
    return f"published to {topic}"
