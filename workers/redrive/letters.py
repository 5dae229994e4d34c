"""All dead letters of a tenant: the topics that hold them, in groups and one by one, and redrives of many topics at once.

A request looks at so much and no more, topic by topic, and says where the next one goes on.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

import msgspec

from messaging.adminrpc.base import A, Method, R
from messaging.adminrpc.methods import NAMES_SEARCH, REDRIVE_SCAN, TOPICS_PARTITIONS
from messaging.adminrpc.redrive import RedriveFound, RedriveScan
from messaging.adminrpc.topics import NamesSearch, PartitionsGet
from messaging.broker.core.dead_letters.redrive import REASON
from messaging.errors import InvalidValue, MagnetarError, NotFound, PreconditionFailed, TopicNotFound
from messaging.limits.sizes import INT64_MAX, PARTITIONS_MAX
from messaging.payloads.masks import MASK, Masks
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import TopicName, parse_topic
from tenants import broker
from tenants.access import Actor, require
from tenants.scoping import tenant_scope
from workers.redrive import actions
from workers.redrive.destinations import destination
from workers.redrive.models import RedriveJob
from workers.redrive.shapes import Letter, LetterGroup, LettersList, LettersPage, LettersQuery, NotStarted

ENDING = "-DLQ"  # of the names that stock clients and dead-letter policies give
FOUND_MAX = 1_000  # topics that are found by name, and as many that were redriven before
SECONDS_MAX = 1.5  # of one request
STARTED_SECONDS_MAX = 10.0
FOUND_AT_ONCE = 500
GROUPS_MAX = 200
LETTERS_MAX = 100
LEFT_OUT_MAX = 20
ANSWER_S = 2.0  # that a broker has for one topic, or for the names of all
_NUMBER = re.compile(r"-?[0-9]{1,19}")
TO, STAYS = "to ", "stays: "


@dataclass
class Topics:
    """`names`: full names of topics and partitions, sorted. `more`: not all were found."""

    names: list[str] = field(default_factory=list)
    more: bool = False


class _Place(NamedTuple):
    """`partition` -1: the topic itself."""

    name: str
    partition: int = -1
    ledger_id: int = -1
    entry_id: int = 0

    @property
    def token(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}:{self.partition}:{self.name}"

    @property
    def topic(self) -> TopicName:
        name = parse_topic(self.name)
        return name if self.partition < 0 else name.of_partition(self.partition)


def _place(token: str) -> _Place:
    """Raises `InvalidValue`."""
    parts = token.split(":", 3)
    if len(parts) == 4 and len(token) <= 4_096 and all(_NUMBER.fullmatch(part) for part in parts[:3]):
        ledger_id, entry_id, partition = map(int, parts[:3])
        if ledger_id <= INT64_MAX and 0 <= entry_id <= INT64_MAX and partition < PARTITIONS_MAX:
            return _Place(parts[3], partition, ledger_id, entry_id)
    raise InvalidValue("`after` is invalid: use the value of `next` from the previous answer")


def letter_topics(actor: Actor, tenant: str, chosen: tuple[str, ...] = ()) -> Topics:
    """Topics of the tenant whose names say that they hold dead letters, and those that were redriven before; or those `chosen`.
    Of them what the actor may redrive. Partitions are not told apart yet. Raises `InvalidValue`, `NotAuthorized`, and what the
    broker raises."""
    require(actor, Action.OPERATE, Resource(tenant))
    found = Topics()
    if chosen:
        names = {str(_of_tenant(name, tenant)) for name in chosen}
    else:
        search = NamesSearch(words=ENDING.lower(), tenants=[tenant], limit=FOUND_MAX)
        answer = _answer(NAMES_SEARCH, search)
        names = {name for name in answer.topics if name.endswith(ENDING)}
        with tenant_scope(tenant):
            before = list(RedriveJob.objects.order_by("topic").values_list("topic", flat=True).distinct()[:FOUND_MAX])
        names |= {str(topic.base if topic.partition >= 0 else topic) for topic in map(parse_topic, before)}
        found.more = len(answer.topics) >= FOUND_MAX or len(before) >= FOUND_MAX
    topics = [parse_topic(name) for name in names]
    actor.grants.read_namespaces(sorted({str(topic.namespace) for topic in topics}))
    found.names = sorted(str(topic) for topic in topics if topic.persistent and _may_redrive(actor, topic))
    return found


def _answer(method: Method[R, A], request: R) -> A:
    return broker.answer_within(method, request, ANSWER_S)


def _of_tenant(name: str, tenant: str) -> TopicName:
    topic = parse_topic(name) if "://" in name else None
    if topic is None or topic.tenant != tenant or not topic.persistent:
        raise InvalidValue(f"{name[:80]!r} is not the full name of a persistent topic of {tenant}: use persistent://{tenant}/...")
    return topic


def _may_redrive(actor: Actor, topic: TopicName) -> bool:
    try:
        actions.owner_of(actor, topic)
    except MagnetarError:
        return False
    return True


# --- looking through them


def _shown(entry: RedriveFound, masks: Masks, shown_property: str) -> RedriveFound:
    """Without what is masked for who looks. Where it came from is known to whoever may redrive."""
    if masks.key and entry.key:
        entry.key = MASK
    if entry.reason and masks.hides_property(REASON):
        entry.reason = MASK
    if entry.shown_property and masks.hides_property(shown_property):
        entry.shown_property = MASK
    return entry


class _Then(Enum):
    ON, NEXT_TOPIC, STOP = range(3)


_Visit = Callable[[TopicName, list[RedriveFound]], _Then]


class _Look:
    """`found_max`: entries of one call of the broker."""

    def __init__(
        self, actor: Actor, tenant: str, query: LettersQuery, after: str, found_max: int, seconds_max: float | None = None
    ) -> None:
        self._actor = actor
        self._query = query
        self.found_max = found_max
        self._seconds_max = SECONDS_MAX if seconds_max is None else seconds_max
        self._filter = msgspec.structs.asdict(actions.filter_of(query.asked))
        self._begin = _place(after) if after else _Place("")
        self.topics = letter_topics(actor, tenant, query.topics)
        self.left_out: list[NotStarted] = []
        self.looked_at = self._calls = 0
        self.topics_done = 0
        self.next: str | None = None

    def run(self, visit: _Visit) -> None:
        """A topic that cannot be read is left out, and the next one is looked at, as long as there is time."""
        ends_s, begin = time.monotonic() + self._seconds_max, self._begin
        for name in self.topics.names:
            if name >= begin.name:
                if self.left_out and time.monotonic() >= ends_s:  # else each of a thousand would be waited for
                    self.next = _Place(name).token
                    return
                for place in self._parts(name, begin if name == begin.name else None):
                    reached = self._through(place, visit, ends_s)
                    if reached is not None:
                        self.next = reached.token
                        return
            self.topics_done += 1

    def _parts(self, name: str, begin: _Place | None) -> list[_Place]:
        try:
            count = 0
            if parse_topic(name).partition < 0:
                count = _answer(TOPICS_PARTITIONS, PartitionsGet(topic=name)).partitions
        except MagnetarError as error:
            self._leave_out(name, error)
            return []
        places = [_Place(name, number) for number in range(count)] or [_Place(name)]
        if begin is None:
            return places
        return [begin if place.partition == begin.partition else place for place in places if place.partition >= begin.partition]

    def _through(self, place: _Place, visit: _Visit, ends_s: float) -> _Place | None:
        """Where the next request goes on; None: this topic was looked through, or left out."""
        topic, asked = place.topic, self._query.asked
        try:
            owner = actions.owner_of(self._actor, topic, asked.subscription)
            masks = actions.checked_masks(self._actor, topic, asked)
            while not self._calls or time.monotonic() < ends_s:  # each request comes on, however long its calls take
                self._calls += 1
                page = _answer(
                    REDRIVE_SCAN,
                    RedriveScan(
                        topic=str(topic),
                        subscription=asked.subscription,
                        owner=owner,
                        **self._filter,
                        ledger_id=place.ledger_id,
                        entry_id=place.entry_id,
                        found_max=self.found_max,
                        shown_property=self._query.shown_property,
                    ),
                )
                self.looked_at += page.looked_at
                place = place._replace(ledger_id=page.ledger_id, entry_id=page.entry_id)
                then = visit(topic, [_shown(entry, masks, self._query.shown_property) for entry in page.found])
                if page.done or then is _Then.NEXT_TOPIC:
                    return None
                if then is _Then.STOP:
                    return place
        except (NotFound, TopicNotFound):  # it was deleted meanwhile
            return None
        except MagnetarError as error:
            self._leave_out(str(topic), error)
            return None
        return place

    def _leave_out(self, topic: str, error: MagnetarError) -> None:
        if len(self.left_out) < LEFT_OUT_MAX:
            self.left_out.append(NotStarted(topic=topic, why=error.message))


def groups(actor: Actor, tenant: str, query: LettersQuery, after: str = "", seconds_max: float | None = None) -> LettersPage:
    """What this request looked at, in groups. Raises `InvalidValue`, and what the broker raises for the names of topics."""
    look, found = _Look(actor, tenant, query, after, FOUND_AT_ONCE, seconds_max), dict[str, LetterGroup]()
    value_of, beyond = _value_of(query), 0

    def visit(topic: TopicName, entries: list[RedriveFound]) -> _Then:
        nonlocal beyond
        for entry in entries:
            value, stays = value_of(topic, entry), bool(_why_stays(topic, entry, query))
            at_ms = entry.publish_time_ms
            one = LetterGroup(value=value, entries=1, messages=entry.messages, staying=int(stays), oldest_ms=at_ms, newest_ms=at_ms)
            if value in found:
                add(found[value], one)
            elif len(found) < GROUPS_MAX:
                found[value] = one
            else:
                beyond += entry.messages
        return _Then.ON

    look.run(visit)
    return LettersPage(
        groups=sorted(found.values(), key=lambda group: (-group.messages, group.value)),
        beyond=beyond,
        looked_at=look.looked_at,
        topics=len(look.topics.names),
        topics_done=look.topics_done,
        left_out=look.left_out,
        more_topics=look.topics.more,
        next=look.next,
    )


def add(group: LetterGroup, other: LetterGroup) -> None:
    """More of the same group."""
    group.entries += other.entries
    group.messages += other.messages
    group.staying += other.staying
    group.oldest_ms = min(group.oldest_ms, other.oldest_ms)
    group.newest_ms = max(group.newest_ms, other.newest_ms)


def letters(
    actor: Actor, tenant: str, query: LettersQuery, after: str = "", limit: int = LETTERS_MAX, seconds_max: float | None = None
) -> LettersList:
    """A page of them, oldest first of each topic. May be empty although there are more. Raises as `groups`."""
    look, items = _Look(actor, tenant, query, after, limit, seconds_max), list[Letter]()

    def visit(topic: TopicName, entries: list[RedriveFound]) -> _Then:
        items.extend(_letter(topic, entry, query) for entry in entries)
        look.found_max = max(1, limit - len(items))
        return _Then.ON if len(items) < limit else _Then.STOP

    look.run(visit)
    return LettersList(items=items, looked_at=look.looked_at, left_out=look.left_out, next=look.next)


def _letter(topic: TopicName, entry: RedriveFound, query: LettersQuery) -> Letter:
    why = _why_stays(topic, entry, query)
    return Letter(
        topic=str(topic),
        message_id=f"{entry.ledger_id}:{entry.entry_id}",
        messages=entry.messages,
        size_bytes=entry.size_bytes,
        key=entry.key,
        publish_time_ms=entry.publish_time_ms,
        origin_topic=entry.origin_topic,
        origin_subscription=entry.origin_subscription,
        reason=entry.reason,
        producer=entry.producer,
        destination="" if why else query.asked.target or destination(topic, entry).topic,
        why=why,
    )


def _why_stays(topic: TopicName, entry: RedriveFound, query: LettersQuery) -> str:
    return entry.refused or ("" if query.asked.target else destination(topic, entry).why)


def _outcome(topic: TopicName, entry: RedriveFound, query: LettersQuery) -> str:
    why = _why_stays(topic, entry, query)
    return f"{STAYS}{why}" if why else f"{TO}{query.asked.target or destination(topic, entry).topic}"


def _day(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).date().isoformat()


def _hour(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:00Z")


_Value = Callable[[TopicName, RedriveFound, LettersQuery], str]
BY: dict[str, _Value] = {
    "reason": lambda topic, entry, query: entry.reason,
    "origin_topic": lambda topic, entry, query: entry.origin_topic,
    "origin_subscription": lambda topic, entry, query: entry.origin_subscription,
    "producer": lambda topic, entry, query: entry.producer,
    "topic": lambda topic, entry, query: str(topic),
    "key": lambda topic, entry, query: entry.key,
    "property": lambda topic, entry, query: entry.shown_property,
    "day": lambda topic, entry, query: _day(entry.publish_time_ms),
    "hour": lambda topic, entry, query: _hour(entry.publish_time_ms),
    "outcome": _outcome,
}


def _value_of(query: LettersQuery) -> Callable[[TopicName, RedriveFound], str]:
    """Raises `InvalidValue`."""
    value = BY.get(query.by)
    if value is None:
        raise InvalidValue(f"by {query.by[:40]!r} is unknown: use one of {', '.join(BY)}")
    if query.by == "property" and not query.shown_property:
        raise InvalidValue("which property is missing: give `property`")
    return lambda topic, entry: value(topic, entry, query)


# --- moving them


def start(actor: Actor, tenant: str, query: LettersQuery) -> tuple[list[RedriveJob], list[NotStarted]]:
    """A redrive of each topic with something that matches, and those for which none was started, with the reason. With an
    idempotency key a topic has one redrive for it. Raises `InvalidValue`, `NotAuthorized`, `PreconditionFailed`, and what the
    broker raises for the names of topics."""
    asked, started, not_started = query.asked, list[RedriveJob](), list[NotStarted]()
    if asked.given.get("positions") and len(query.topics) != 1:
        raise InvalidValue("message_ids are of one topic: name it in `topics`, and no other")
    for name in query.topics:
        actions.owner_of(actor, _of_tenant(name, tenant), asked.subscription)
    held, left_out = _holding(actor, tenant, query)
    not_started += left_out
    for name in held:
        key = hashlib.sha256(f"{asked.idempotency_key}/{name}".encode()).hexdigest()[:48] if asked.idempotency_key else ""
        try:
            started.append(actions.start(actor, parse_topic(name), replace(asked, idempotency_key=key)))
        except MagnetarError as error:
            not_started.append(NotStarted(topic=name, why=error.message))
    return started, not_started


def _holding(actor: Actor, tenant: str, query: LettersQuery) -> tuple[list[str], list[NotStarted]]:
    """Topics and partitions with something that matches, and those that could not be looked at."""
    held: list[str] = []
    left_out: list[NotStarted] = []

    def visit(topic: TopicName, entries: list[RedriveFound]) -> _Then:
        if not entries:
            return _Then.ON
        held.append(str(topic))
        return _Then.NEXT_TOPIC

    ends_s, after = time.monotonic() + STARTED_SECONDS_MAX, ""
    while True:
        look = _Look(actor, tenant, query, after, 1)
        look.run(visit)
        left_out += look.left_out
        if look.next is None:
            return held, left_out
        if time.monotonic() >= ends_s:
            raise PreconditionFailed("there are too many dead-letter topics to look at now: name those that are to be redriven")
        after = look.next
