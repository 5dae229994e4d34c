"""The objects of the part of our API that is about redrives."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from messaging.adminrpc.fields import EDITED_BYTES_MAX
from messaging.adminrpc.redrive import RedriveEdit
from messaging.bodies import AS_SENT, Text, Time, one_of, sent_fields
from messaging.errors import InvalidValue
from messaging.limits import rest as limits
from messaging.limits.model import Limit
from messaging.limits.sizes import PAIR_BYTES_MAX, TOPIC_BYTES_MAX, WHY_PAIRS
from messaging.payloads.masks import MASK, Masks
from messaging.protocol.names import parse_topic, subscription_name
from tenants.access import Actor
from tenants.rest.message_shapes import Properties
from tenants.rest.shapes import shown
from workers.redrive.actions import SUBSCRIPTION, DryRun, Request, filter_for
from workers.redrive.models import RedriveJob, RedriveOutcome

_FILTER = (
    "key",
    "property_name",
    "property_value",
    "origin_subscription",
    "origin_topic",
    "reason",
    "producer",
    "from_ms",
    "until_ms",
    "redriven_max",
)


Name = Annotated[Text, limits.NAME]
Pair = Annotated[str, Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX)]
Milliseconds = Annotated[int, limits.MILLISECONDS]
MESSAGE_IDS = Limit("chosen one by one", bytes_max=80, count_max=100)
TOPICS = Limit("a redrive is started for each", bytes_max=TOPIC_BYTES_MAX, count_max=100)
Rate = Annotated[int, Limit("messages per second", minimum=0, maximum=1_000_000)]


class EditedMessage(msgspec.Struct, kw_only=True):
    """The payload is one of `text` and `payload_base64`. What is not given, the message does not have."""

    text: Annotated[str, Limit("of a dead letter that is edited", bytes_max=EDITED_BYTES_MAX), AS_SENT] | UnsetType = UNSET
    payload_base64: Annotated[str, Limit("of a dead letter that is edited", bytes_max=EDITED_BYTES_MAX * 2)] | UnsetType = UNSET
    key: Annotated[str, limits.TOPIC, AS_SENT] | UnsetType = UNSET
    properties: Properties = {}


class _Wanted(msgspec.Struct, kw_only=True):
    subscription: Annotated[
        Name, Meta(description="What it has not acknowledged is moved; missing: `redrive`, made where it is missing.")
    ] = SUBSCRIPTION
    key: Annotated[str, limits.TOPIC, AS_SENT, Meta(description="Only messages with this key.")] | UnsetType = UNSET
    property_name: Annotated[Pair, AS_SENT] | UnsetType = UNSET
    property_value: Annotated[Pair, AS_SENT] | UnsetType = UNSET
    origin_subscription: Annotated[str, limits.NAME, Meta(description="From which it was dead-lettered.")] | UnsetType = UNSET
    origin_topic: Annotated[str, limits.TOPIC, Meta(description="From which it was dead-lettered, full name.")] | UnsetType = UNSET
    reason: Annotated[Pair, AS_SENT, Meta(description="Only with this DEAD_LETTER_REASON.")] | UnsetType = UNSET
    producer: Annotated[str, limits.TOPIC, AS_SENT, Meta(description="Only what this producer published.")] | UnsetType = UNSET
    message_ids: Annotated[list[Text], MESSAGE_IDS, Meta(description="Only these: ledger:entry of each.")] = []
    from_ms: Annotated[Milliseconds, Meta(description="Published at or after, milliseconds since 1970.")] | UnsetType = UNSET
    until_ms: Annotated[Milliseconds, Meta(description="Published before; 0: any time.")] | UnsetType = UNSET
    redriven_max: Annotated[int, limits.REDRIVEN, Meta(description="One redriven so often stays; 0: any.")] | UnsetType = UNSET
    rate: Annotated[Rate, Meta(description="Messages per second; 0: as fast as it goes.")] = 0
    target: Annotated[
        Text,
        limits.TOPIC,
        Meta(description="Full name of the topic to move to; missing: each goes where it came from, in the same namespace."),
    ] = ""
    edit: EditedMessage | UnsetType = UNSET
    idempotency_key: Annotated[Name, Meta(description="The same key names the same job.")] = ""


class NewRedrive(_Wanted, kw_only=True):
    """What matches all that is given moves. `edit`: of the one message in `message_ids`."""


class NewLettersRedrive(_Wanted, kw_only=True):
    """The same, of several dead-letter topics: a redrive each."""

    topics: Annotated[
        list[Text], TOPICS, Meta(description="Full names; missing: all dead-letter topics that hold something that matches.")
    ] = []


class NotStarted(msgspec.Struct, kw_only=True):
    topic: str
    why: str


class LetterGroup(msgspec.Struct, kw_only=True):
    value: Annotated[str, Meta(description="What its messages have in common; empty: they do not say.")]
    entries: int
    messages: int
    staying: Annotated[int, Meta(description="Entries of it that a redrive to where they came from would leave.")]
    oldest_ms: Annotated[int, Meta(description="When the first of them became a dead letter, milliseconds since 1970.")]
    newest_ms: int


class LettersPage(msgspec.Struct, kw_only=True):
    groups: Annotated[list[LetterGroup], Meta(description="Of what this request looked at: add up those of all.")]
    beyond: Annotated[int, Meta(description="Messages in further groups.")]
    looked_at: Annotated[int, Meta(description="Entries.")]
    topics: Annotated[int, Meta(description="Dead-letter topics that one may redrive.")]
    topics_done: int
    left_out: Annotated[list[NotStarted], Meta(description="Topics that could not be read now.")]
    more_topics: Annotated[bool, Meta(description="There are more dead-letter topics than are found by name: name them.")]
    next: Annotated[str | None, Meta(description="`after` of the next request; null: everything was looked at.")]


class Letter(msgspec.Struct, kw_only=True):
    topic: str
    message_id: str
    messages: int
    size_bytes: int
    key: Annotated[str, Meta(description="At most 256 characters of it, as of each of the following.")]
    publish_time_ms: Annotated[int, Meta(description="When it became a dead letter.")]
    origin_topic: str
    origin_subscription: str
    reason: str
    producer: str
    destination: Annotated[str, Meta(description="Where a redrive would move it; empty: nowhere.")]
    why: Annotated[str, Meta(description="Why it would stay; empty: it would not.")]


class LettersList(msgspec.Struct, kw_only=True):
    items: list[Letter]
    looked_at: int
    left_out: list[NotStarted]
    next: Annotated[str | None, Meta(description="`after` of the next page, which may be empty; null: nothing is left.")]


class RedriveShape(msgspec.Struct, kw_only=True):
    id: str
    job: Annotated[str, Meta(description="Its id among the jobs of the tenant, /api/v1/tenants/TENANT/jobs/JOB.")]
    idempotency_key: str
    topic: str
    subscription: str
    target: Annotated[str, Meta(description="Empty: each goes where it came from.")]
    filter: dict[str, Any]
    rate: int
    state: Annotated[str, one_of(RedriveJob.State.values)]
    requested_by: str
    created_at: Time
    finished_at: Time | None
    looked_at: Annotated[int, Meta(description="Entries.")]
    moved: Annotated[int, Meta(description="Messages.")]
    left: Annotated[int, Meta(description="Entries that match and stay.")]
    error: Annotated[str, Meta(description="Why it does not go on.")]


class LettersRedrives(msgspec.Struct, kw_only=True):
    started: list[RedriveShape]
    not_started: list[NotStarted]


class RedriveSample(msgspec.Struct, kw_only=True):
    message_id: str
    key: str
    messages: int
    publish_time_ms: int
    why: Annotated[str, Meta(description="Why it stays; empty: it moves.")]


class RedriveDryRun(msgspec.Struct, kw_only=True):
    looked_at: int
    entries: int
    messages: int
    left: int
    complete: Annotated[bool, Meta(description="false: there is more than was looked at.")]
    samples: list[RedriveSample]


class RedriveOutcomeShape(msgspec.Struct, kw_only=True):
    id: int
    message_id: str
    key: Annotated[str, Meta(description="At most 256 characters of it.")]
    messages: int
    why: Annotated[str, Meta(description="Empty: it was moved.")]
    target: Annotated[str, Meta(description="Where to; empty: it stays.")]


def asked_of(given: NewRedrive | NewLettersRedrive) -> Request:
    """Raises `InvalidValue`."""
    wanted = {name: value for name, value in sent_fields(given).items() if name in _FILTER}
    if given.message_ids:
        wanted["positions"] = [_position(text) for text in given.message_ids]
    edit = None if given.edit is UNSET else _edit(given.edit)
    return Request(given.target, given.subscription, given.rate, given.idempotency_key, given=wanted, edit=edit)


def _position(text: str) -> list[int]:
    """Raises `InvalidValue`."""
    parts = text.split(":")[:2]
    if len(parts) < 2 or len(text) > 80 or not all(part.isascii() and part.isdecimal() and len(part) < 19 for part in parts):
        raise InvalidValue(f"message_ids: {text[:80]!r} is no message id: give ledger:entry, as 12:7")
    return [int(part) for part in parts]


def _edit(given: EditedMessage) -> RedriveEdit:
    """Raises `InvalidValue`."""
    if (given.text is UNSET) == (given.payload_base64 is UNSET):
        raise InvalidValue("edit: give one of text and payload_base64")
    try:
        if given.text is not UNSET:
            payload = given.text.encode()
        else:
            payload = base64.b64decode(str(given.payload_base64), validate=True)
    except UnicodeEncodeError:
        raise InvalidValue("edit.text is no text: give payload_base64 for binary data") from None
    except (binascii.Error, ValueError):
        raise InvalidValue("edit.payload_base64 is no base64") from None
    if len(payload) > EDITED_BYTES_MAX:
        raise InvalidValue(f"edit: a payload of {len(payload)} bytes is more than the {EDITED_BYTES_MAX} that are edited")
    return RedriveEdit(edited_payload=payload, key=None if given.key is UNSET else given.key, properties=given.properties)


def show_job(job: RedriveJob, actor: Actor) -> RedriveShape:
    return shown(RedriveShape, job, job=f"redrive-{job.id}", filter=filter_for(actor, job))


def show_outcome(outcome: RedriveOutcome, masks: Masks) -> RedriveOutcomeShape:
    if masks.key and outcome.key:
        outcome.key = MASK
    return shown(RedriveOutcomeShape, outcome, id=outcome.pk, message_id=f"{outcome.ledger_id}:{outcome.entry_id}")


def show_dry_run(result: DryRun) -> RedriveDryRun:
    samples = [
        shown(RedriveSample, sample, message_id=f"{sample.ledger_id}:{sample.entry_id}", why=sample.refused)
        for sample in result.samples
    ]
    return shown(RedriveDryRun, result, samples=samples)


class LettersQuery(NamedTuple):
    """`by`: one of `letters.BY`; `shown_property`: of by `property`. `topics`: full names, () for all. `asked`: what must match,
    and where it would go."""

    by: str = "reason"
    topics: tuple[str, ...] = ()
    shown_property: str = ""
    asked: Request = Request()


def letters_query(given: Mapping[str, str]) -> LettersQuery:
    """Of the parameters of an address. Raises `InvalidValue`."""
    wanted: dict[str, Any] = {name: given[name] for name in _FILTER if given.get(name)}
    for name in ("from_ms", "until_ms", "redriven_max"):
        if name in wanted:
            text = wanted[name]
            if not (text.isascii() and text.isdecimal() and len(text) < 19):
                raise InvalidValue(f"{name} {text[:20]!r} is not a number")
            wanted[name] = int(text)
    asked = Request(given.get("target", ""), given.get("subscription", "") or SUBSCRIPTION, given=wanted)
    if asked.target:
        parse_topic(asked.target)
    subscription_name(asked.subscription)
    topic = given.get("topic", "")
    return LettersQuery(given.get("by", "") or "reason", (topic,) if topic else (), given.get("property", ""), asked)
