"""Admin RPC: topics and namespaces."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Listing, Request


class TopicRef(Request, kw_only=True):
    topic: fields.Topic  # full name


class StatsAsked(TopicRef, kw_only=True):
    """`only_subscriptions`: these alone have figures of their own, and what is added up is of these; none: all do.
    `only_consumers`, `only_producers`: those of these names alone do, and rates are of all; None: all do. Of a partitioned topic
    producers are not chosen: a client may have one under another name on each partition."""

    only_subscriptions: fields.SubscriptionsShown = []
    only_consumers: fields.ClientsShown | None = None
    only_producers: fields.ClientsShown | None = None


class TopicsAsked(Request, kw_only=True):
    topics: fields.Topics  # full names


class TopicTimes(Answer, kw_only=True):
    """When each was created, in ms since 1970: it tells a topic from a former one of its name. Those that do not exist are
    missing."""

    created_ms: dict[str, int]


class TopicCreate(Request, kw_only=True):
    """`partitions` None: a plain topic. Raises conflict if the name exists in either form. Not idempotent."""

    topic: fields.Topic
    partitions: fields.Partitions | None = None
    properties: fields.Properties = {}


class TopicDelete(Request, kw_only=True):
    """Without `force`: precondition_failed while producers or consumers are connected. `partitioned`: all partitions too.

    `recycle`: it goes to the recycle bin, if a policy says so, with what the control plane has set on it."""

    topic: fields.Topic
    force: bool = False
    partitioned: bool = False
    recycle: bool = False
    deleted_by: fields.Owner = ""
    policies: Annotated[dict[str, Any], fields.POLICIES] = {}
    subscription_policies: fields.Subscriptions = {}


class TopicDeletion(Answer, kw_only=True):
    """`recycle_id` is "" for one that was deleted for good."""

    recycle_id: str = ""
    expires_ms: int = 0


class TopicsList(Request, kw_only=True):
    namespace: fields.Namespace


class TopicsPageAsked(Request, kw_only=True):
    """The topics that come after the full name `after` ("": from the first), by name. `words` (lower case): of which the last part
    of the name contains them."""

    namespace: fields.Namespace
    after: fields.Topic = ""
    words: fields.Words = ""
    limit: fields.PageLimit


class PageTopic(msgspec.Struct, kw_only=True):
    topic: str
    partitions: int  # 0: it is not partitioned


class TopicsPage(Listing, kw_only=True):
    """A partitioned topic counts as one, and system topics are left out, so `topics` may be fewer than `limit` though more follow.
    `next`: the `after` of the page that follows, "" after the last one. Of brokers that did not answer, topics are missing that are
    not stored."""

    topics: list[PageTopic]
    next: str = ""


class NamesSearch(Request, kw_only=True):
    """Names that contain `words` (lower case), of these tenants; `everywhere`: of all tenants."""

    words: fields.Words
    tenants: fields.Tenants = []
    everywhere: bool = False
    limit: fields.PageLimit = 20


class SubscriptionFound(Answer, kw_only=True):
    topic: str
    name: str


class SearchResult(Answer, kw_only=True):
    """At most `limit` of each; partitions are named by their partitioned topic."""

    topics: list[str]
    subscriptions: list[SubscriptionFound]


class TopicNames(Answer, kw_only=True):
    """`topics`: plain topics and partitions one by one. `partitioned`: partitioned topic -> number of partitions."""

    topics: list[str]
    partitioned: dict[str, int]


class PartitionsGet(Request, kw_only=True):
    topic: fields.Topic
    check_auto_creation: bool = False  # 0 instead of topic_not_found where the topic would be made on first use


class Partitions(Answer, kw_only=True):
    partitions: int
    properties: dict[str, str] = {}


class PartitionsUpdate(Request, kw_only=True):
    topic: fields.Topic
    partitions: fields.Partitions


class MessageIdAnswer(Answer, kw_only=True):
    ledger_id: int
    entry_id: int
    partition: int = -1
    batch_index: int = -1


class TopicProperties(Answer, kw_only=True):
    """Of a topic, plain or partitioned, or of one partition."""

    properties: dict[str, str]


class TopicPropertiesChange(Request, kw_only=True):
    """Sets `properties`, keeps the others, and removes the one called `removed`, if any."""

    topic: fields.Topic
    properties: fields.Properties = {}
    removed: fields.Removed = ""


class TerminatedPartitions(Answer, kw_only=True):
    """The last message of each of `partitions`, in order: of all, where one broker serves them all."""

    last: list[MessageIdAnswer]
    partitions: list[int]


class TopicLookup(Request, kw_only=True):
    topic: fields.Topic


class LookupAnswer(Answer, kw_only=True):
    broker_url: str
    broker_url_tls: str
    http_url: str
    http_url_tls: str


class Stats(Answer, kw_only=True):
    """`stats` has the keys of Pulsar's TopicStats / internal stats (research: camelCase names)."""

    stats: dict[str, Any]


class TopicMembersAsked(TopicRef, kw_only=True):
    """`figures`: some of `SUBSCRIPTION_FIGURES`. `subscription`: of this one and its consumers alone; "": of all."""

    figures: fields.SubscriptionFigures = []
    subscription: fields.Name = ""


# "held": whether there is anything to say of why nothing arrives; "behind": entries from the first one that is not acknowledged to
# the end. The others are columns of the list of subscriptions.
SUBSCRIPTION_FIGURES = frozenset(
    {"type", "backlog", "oldest", "behind", "out", "acked", "unacked", "delivered", "expired", "dropped", "consumers", "held"}
)


class TopicClient(msgspec.Struct, frozen=True, array_like=True):
    """A consumer, or a producer. Those of one name and address are one: a client has one on each partition. `subscription`: as it
    is shown; "" of a producer. `schema_version` None: it has no schema, or one that is no version of the topic's."""

    name: str
    address: str
    subscription: str
    schema_version: int | None


class TopicMembers(Answer, kw_only=True):
    """All that a topic has, of a partitioned one on all partitions together, in no order. `partitions` 0: it is not partitioned.
    `figures`: of each of `subscriptions`, by the name of the figure; None: not known. `backlogs`: the largest of the subscriptions,
    of each topic or partition by its full name."""

    partitions: int
    subscriptions: list[str]
    figures: dict[str, list[Any]]
    consumers: list[TopicClient]
    producers: list[TopicClient]
    backlogs: dict[str, int]


class TopicLive(msgspec.Struct, kw_only=True):
    """One row of the live topic table. Rates are of the last few seconds. None: not known, as the topic is not loaded."""

    topic: str
    loaded: bool
    rate_in: float  # messages/s
    rate_out: float
    throughput_in: float  # bytes/s
    throughput_out: float
    messages_in: int | None  # since the broker's boot
    messages_out: int | None
    storage_bytes: int | None
    backlog_entries: int | None  # the largest backlog among its subscriptions
    producers: int
    subscriptions: int | None
    consumers: int
    problem: str = ""  # the most urgent kind of `messaging.problems.kinds`; "": none is known


class LiveAsked(Request, kw_only=True):
    """A page of a namespace, as `TopicsPageAsked` has it; or `names` (full names of topics) alone, a partitioned one with its
    partitions, where they exist; or, without `rows_max` and `names`, everything. With `rows_max` the answer has the totals of the
    namespace."""

    namespace: fields.Namespace
    after: fields.Topic = ""
    words: fields.Words = ""
    rows_max: fields.LiveLimit | None = None
    names: fields.TopicsLive = []


class LiveTotals(msgspec.Struct, kw_only=True):
    """Of a whole namespace. `topics`: how many there are, a partitioned one as one. The figures add up the topics that are loaded:
    nothing flows through the others, `at_rest` in number (partitions one by one), and what they hold was not looked at."""

    topics: int
    at_rest: int = 0
    stored: int = 0  # how many of those that are loaded keep messages, partitions one by one
    rate_in: float = 0.0
    rate_out: float = 0.0
    throughput_in: float = 0.0
    throughput_out: float = 0.0
    storage_bytes: int = 0
    backlog_entries: int = 0
    producers: int = 0
    consumers: int = 0


class NamespaceLive(Listing, kw_only=True):
    """`sequence` rises with each snapshot of a broker's boot; `at_ms` is the broker's clock. `topics`: partitions one by one, in
    order. `next`: the `after` of the page that follows, "" after the last one. `totals`: where `limit` was given."""

    sequence: int
    at_ms: int
    boot_epoch: int
    topics: list[TopicLive]
    next: str = ""
    totals: LiveTotals | None = None


class TopicsRankedAsked(Request, kw_only=True):
    """The loaded topics of a namespace with the most (`descending`) or the least of `figure`, a field of `TopicLive` that is a
    number. `words`: as in `TopicsPageAsked`."""

    namespace: fields.Namespace
    figure: fields.Kind
    descending: bool = True
    words: fields.Words = ""
    limit: fields.PageLimit


class TopicsRanked(Listing, kw_only=True):
    """`topics` in order, a partitioned one as one with the sum of its loaded partitions; `values` has their figures. `matching`:
    how many loaded topics there are, whatever the limit."""

    topics: list[str]
    values: list[float]
    matching: int
    figure: str
    descending: bool
