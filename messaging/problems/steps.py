"""Every step that a message passes on its way from a producer to a consumer, in order, and what is said of each.

The broker says where each stands (`messaging.broker.core.diagnosis.steps`). Whoever shows that uses these texts, in the language of
the reader: ``text_of`` is the English one. Placeholders end in their unit: ``_ms`` are moments, ``_s`` seconds, ``_bytes`` bytes;
``limit`` is made of ``limit_messages`` and ``limit_bytes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from messaging.policies.texts import counted
from messaging.times import time_text

Facts = Mapping[str, str | int | float]


class Step(StrEnum):
    PUBLISHED = "published"
    TOPIC = "topic"
    SPENDING = "spending"
    ENCRYPTION = "encryption"
    SCHEMA = "schema"
    MESSAGE_SIZE = "message_size"
    STORED_BYTES = "stored_bytes"
    BACKLOG_QUOTA = "backlog_quota"
    PUBLISH_RATE = "publish_rate"
    DEDUPLICATION = "deduplication"
    SUBSCRIPTION = "subscription"
    BACKLOG = "backlog"
    EXPIRY = "expiry"
    CONSUMER = "consumer"
    ACTIVE_CONSUMER = "active_consumer"
    DELAY = "delay"
    DISPATCH_RATE = "dispatch_rate"
    READING = "reading"
    KEYS = "keys"
    CONNECTION = "connection"
    PERMITS = "permits"
    CONSUMER_UNACKED = "consumer_unacked"
    SUBSCRIPTION_UNACKED = "subscription_unacked"
    ACKNOWLEDGEMENT = "acknowledgement"
    REDELIVERY = "redelivery"
    DEAD_LETTERS = "dead_letters"


class StepState(StrEnum):
    OPEN = "open"  # messages pass
    SLOWS = "slows"  # some are held, or are gone
    SHUT = "shut"  # nothing passes
    NONE = "none"  # nothing is set here, or nothing is there
    UNKNOWN = "unknown"  # a step before it decides


TEXTS = {
    "published.connected": "Producers connected: {producers}. Last published {last_ms}.",
    "published.silent": "Producers connected: {producers}. Nothing was published since the topic was loaded.",
    "published.nobody": "No producer is connected. Last published {last_ms}.",
    "published.never": "No producer is connected, and nothing was published since the topic was loaded.",
    "published.waiting": "Producers that wait until they alone may publish: {waiting}. Last published {last_ms}.",
    "topic.open": "The topic takes messages.",
    "topic.fewer_copies": "The topic takes messages. Since {since_ms} they get fewer copies than wanted: too few bookies answer.",
    "topic.closing": "The topic is being unloaded or deleted. Clients connect again by themselves.",
    "topic.terminated": "The topic was terminated: it takes no more messages.",
    "topic.failed": "The log cannot be written: {why}",
    "spending.open": "No spend cap stops publishing.",
    "spending.stopped": "{why}",
    "encryption.none": "Messages may be encrypted or not.",
    "encryption.required": "Producers that do not encrypt are refused.",
    "schema.open": "No client was refused for its schema in the last 10 minutes.",
    "schema.refused": "{why}",
    "message_size.none": "No limit but that of the broker.",
    "message_size.set": "Larger messages than {most_bytes} are refused.",
    "stored_bytes.none": "The tenant may store any number of bytes.",
    "stored_bytes.open": "The tenant stores {used_bytes} of {most_bytes}.",
    "stored_bytes.full": "{why}",
    "backlog_quota.none": "No backlog quota is set.",
    "backlog_quota.open": "The backlog is below its quota.",
    "backlog_quota.evicts": "Above the quota, the oldest messages are removed, acknowledged or not.",
    "backlog_quota.held": "{why}",
    "publish_rate.none": "No rate limit applies.",
    "publish_rate.open": "Below the limit. How often publishing had to wait for it since the topic was loaded: {waits}.",
    "publish_rate.waiting": "What is published waits for the limit of the {level}: {policy} allows {limit} a second.",
    "deduplication.none": "Off: whatever is published is stored.",
    "deduplication.on": "On: what a producer sends again under a sequence id that is stored is dropped, and gets a receipt.",
    "deduplication.dropped": "Entries dropped, with a receipt, as their sequence ids are stored: {dropped}, last {last_ms}.",
    "subscription.open": "It reads on. Its type is {type}.",
    "subscription.untyped": "It reads on. Nobody has subscribed yet.",
    "subscription.fenced": "A seek or a deletion is under way.",
    "subscription.recovering": "It is being found out which dead letters were moved before the broker stopped.",
    "subscription.failed": "Sending failed {failures}. Nothing is lost; it is tried again.",
    "backlog.empty": "Nothing waits: every message is acknowledged.",
    "backlog.dropping": "The topic keeps nothing. Dropped because nobody could take it: {dropped}.",
    "backlog.waiting": "Entries that are not acknowledged: {entries}, after {mark_delete}.",
    "expiry.none": "Messages do not expire.",
    "expiry.set": "Messages expire after {ttl_s}. None did since the topic was loaded.",
    "expiry.expired": "Messages expire after {ttl_s}. Entries that did since the topic was loaded: {expired}, last {last_ms}.",
    "consumer.nobody": "No consumer is connected.",
    "consumer.connected": "Consumers connected: {consumers}.",
    "consumer.refused": (
        "Consumers connected: {consumers}. Others that came and were refused: {refused}, the first {first_ms}, the last {last_ms}: "
        "{why}."
    ),
    "active_consumer.none": "Every consumer is sent messages.",
    "active_consumer.only": "Only {name} is sent messages: it is the active one.",
    "active_consumer.standby": "Only {name} is sent messages. Standing by until it leaves: {standby}.",
    "delay.none": "No message is known to wait for its delivery time.",
    "delay.ignored": "A subscription of this type delivers delayed messages at once.",
    "delay.waiting": "Entries that wait for their delivery time: {entries}.",
    "delay.until": "Entries that wait for their delivery time: {entries}; the next is due {next_ms}.",
    "dispatch_rate.none": "No rate limit holds it back.",
    "dispatch_rate.waiting": "Delivery waits for the limit of the {level}: {policy} allows {limit} a second.",
    "dispatch_rate.dropping": "What exceeds the limit of the {level} is dropped: {policy} allows {limit} a second.",
    "reading.open": "Nothing waits to be read.",
    "reading.backlog": "The next messages are being read from disk.",
    "reading.memory": "Reading from disk waits for memory, or for its turn.",
    "reading.no_room": "Reading stopped at a delayed message: the tenant holds {used_bytes} of {most_bytes} of memory.",
    "keys.none": "Messages go to any consumer, whatever their key.",
    "keys.open": "Every key has its consumer.",
    "keys.waiting": "Entries that wait for the consumers of their keys: {entries}.",
    "keys.draining": "Keys wait until the consumers that had them have acknowledged what they hold.",
    "keys.unowned": "No consumer has named some of the hash ranges: {ranges}. Messages of their keys wait.",
    "connection.open": "Every consumer reads its connection.",
    "connection.some": "Consumers that do not read their connection: {stuck} of {consumers}.",
    "permits.open": "Every consumer has asked for messages.",
    "permits.some": "Consumers that have not asked for more messages: {stuck} of {consumers}.",
    "consumer_unacked.none": "A consumer may hold any number of messages.",
    "consumer_unacked.open": "No consumer holds as many messages as it may: {most}.",
    "consumer_unacked.some": "Consumers that hold as many messages as they may, {most}: {stuck} of {consumers}.",
    "subscription_unacked.none": "All consumers together may hold any number of messages.",
    "subscription_unacked.open": "Messages that all consumers together hold: {unacked} of {most}.",
    "subscription_unacked.full": "Messages that all consumers together hold: {unacked}; delivery stopped at {most}.",
    "acknowledgement.open": "Nothing that was sent waits to be acknowledged.",
    "acknowledgement.held": "Entries that were sent and are not acknowledged: {entries}. Another was last acknowledged {last_ms}.",
    "acknowledgement.never": "Entries that were sent and are not acknowledged: {entries}. These consumers have acknowledged none.",
    "redelivery.none": "Nothing waits to be sent again.",
    "redelivery.waiting": "Entries to be sent again, before anything new: {entries}.",
    "dead_letters.none": "No policy: a message that is rejected is sent again, however often.",
    "dead_letters.open": "Redeliveries after which a message is moved to {target}: {count}. Moved so far: {moved}.",
    "dead_letters.waiting": "Entries to be moved to {target}: {entries}.",
    "dead_letters.failing": "Entries to be moved to {target}: {entries}, which fails: {why}",
    "unknown": "A step before this one decides.",
}


def text_of(code: str, facts: Facts) -> str:
    """In English, for programs and the command line."""
    amounts = [(facts.get("limit_messages", 0), "message"), (facts.get("limit_bytes", 0), "byte")]
    limit = ", ".join(counted(float(amount), unit) for amount, unit in amounts if amount)
    return TEXTS[code].format_map({"limit": limit, **{name: _plain(name, value) for name, value in facts.items()}})


def _plain(name: str, value: str | float) -> str:
    if isinstance(value, str):
        return value
    if name.endswith("_ms"):
        return f"at {time_text(int(value))}"
    if name.endswith("_bytes"):
        return counted(value, "byte")
    return f"{value:,}{' s' if name.endswith('_s') else ''}"
