"""The list of a namespace's topics, however many there are: which page of it an address means, and what is on that page.

A namespace of up to `WHOLE_MAX` topics is shown whole, and the browser filters and sorts it while somebody types. Of a larger one
the server shows a page: by name all topics, and by a figure those that are loaded, as nothing flows through the others and nobody
has looked at what they hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from django.http import QueryDict

from admin_ui import broker
from admin_ui.addresses import short_name
from admin_ui.live_rows import Group, grouped
from admin_ui.row_list import TRAIL_MAX, cursor_links
from messaging.adminrpc.methods import NAMESPACES_LIVE, TOPICS_RANKED
from messaging.adminrpc.topics import LiveAsked, LiveTotals, NamespaceLive, TopicsRankedAsked
from messaging.errors import MagnetarError

WHOLE_MAX = 1_000
PAGE = 100
PAGES_RANKED = 20  # of those with most of a figure; further ones are found by name
WORDS_MAX = 255
BY_NAME = "topic"
FIGURES = (
    "rate_in",
    "rate_out",
    "throughput_in",
    "throughput_out",
    "backlog_entries",
    "storage_bytes",
    "producers",
    "subscriptions",
    "consumers",
)


@dataclass(frozen=True)
class TopicsAsked:
    """What an address asks for. `after` (full name): of a page by name, and `past` those of the pages before it; `page`: the
    number of one by a figure."""

    words: str = ""
    sort: str = BY_NAME
    descending: bool = False
    after: str = ""
    page: int = 1
    past: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: QueryDict) -> TopicsAsked:
        """What is no such thing is ignored: an address that somebody kept may be of another release."""
        sort = query.get("sort", "")
        descending, figure = sort.startswith("-"), sort.removeprefix("-")
        if figure not in (BY_NAME, *FIGURES):
            descending, figure = False, BY_NAME
        page = query.get("page", "")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 6 else 1
        words, after = query.get("q", "").strip()[:WORDS_MAX], query.get("after", "")[:4_096]
        past = tuple(name[:4_096] for name in query.getlist("past")[-TRAIL_MAX:])
        return cls(words, figure, descending, after, min(max(1, number), PAGES_RANKED), past)

    @property
    def order(self) -> str:
        """As addresses have it."""
        return f"{'-' * self.descending}{self.sort}"

    def query(self, **changed: object) -> str:
        """The address of the same list with something else: ``?q=...``, without what is as it is by itself."""
        asked = replace(self, **{"after": "", "page": 1, "past": (), **changed})  # type: ignore[arg-type]
        given = {"q": asked.words, "sort": asked.order if asked.order != BY_NAME else "", "after": asked.after}
        given |= {"page": str(asked.page) if asked.page > 1 else ""}
        return f"?{urlencode([*((name, text) for name, text in given.items() if text), *(('past', name) for name in asked.past)])}"


@dataclass
class TopicsListed:
    """`whole`: these are all topics of the namespace that there are, not a page. `matching`: of a page by a figure, how many loaded
    topics match. `watched`: the short names that the live feed is to follow, None if it follows the page by itself. `unreachable`:
    brokers that did not answer, whose topics have no figures here."""

    asked: TopicsAsked
    groups: list[Group] = field(default_factory=list)
    totals: LiveTotals | None = None
    whole: bool = True
    next: str = ""
    previous: str = ""
    matching: int | None = None
    watched: list[str] | None = None
    away: str = ""
    unreachable: str = ""

    @property
    def feed_query(self) -> dict[str, str]:
        if self.watched is not None:
            return {"watch": "1"} if self.watched else {"limit": "1"}  # without rows for the totals alone
        if self.whole:
            return {"limit": str(WHOLE_MAX)}
        return {"limit": str(PAGE), "q": self.asked.words, "after": self.asked.after}


def list_topics(namespace: str, asked: TopicsAsked) -> TopicsListed:
    """Asks the broker once or twice; three times for a page by a figure."""
    by_name = asked.sort == BY_NAME
    words, after = (asked.words.lower(), asked.after) if by_name else ("", "")
    try:
        live = _live(LiveAsked(namespace=namespace, rows_max=PAGE, after=after, words=words))
        if live.totals is not None and live.totals.topics <= WHOLE_MAX:
            whole = _live(LiveAsked(namespace=namespace, rows_max=WHOLE_MAX)) if after or words or live.next else live
            if not whole.next:
                return _whole(whole, asked)
        if not by_name:
            live.whole()  # whose figures are unknown has no place in their order
            return _ranked(namespace, asked, live.totals)
    except MagnetarError as error:
        return TopicsListed(asked, away=broker.why(error))
    links = cursor_links(QueryDict(asked.query(after=asked.after, past=asked.past)[1:]), live.next)
    return TopicsListed(
        asked,
        grouped(live),
        live.totals,
        whole=False,
        next=links.next,
        previous=links.previous,
        unreachable=", ".join(live.unreachable),
    )


def _live(asked: LiveAsked) -> NamespaceLive:
    return broker.ask(lambda rpc: rpc.call(NAMESPACES_LIVE, asked))


def _whole(live: NamespaceLive, asked: TopicsAsked) -> TopicsListed:
    words = asked.words.lower()
    groups = grouped(live)
    if asked.sort != BY_NAME:
        groups.sort(key=lambda group: group.figure(asked.sort) or 0, reverse=asked.descending)
    elif asked.descending:
        groups.reverse()
    shown = [group for group in groups if words in group.name.lower()]
    return TopicsListed(asked, shown, live.totals, unreachable=", ".join(live.unreachable))


def _ranked(namespace: str, asked: TopicsAsked, totals: LiveTotals | None) -> TopicsListed:
    ranking = TopicsRankedAsked(
        namespace=namespace,
        figure=asked.sort,
        descending=asked.descending,
        words=asked.words.lower(),
        limit=PAGE * PAGES_RANKED,
    )
    ranked = broker.ask(lambda rpc: rpc.call(TOPICS_RANKED, ranking)).whole()
    start = PAGE * (asked.page - 1)
    names = ranked.topics[start : start + PAGE]
    by_name = {group.topic: group for group in grouped(_live(LiveAsked(namespace=namespace, names=names)))} if names else {}
    groups = [by_name[name] for name in names if name in by_name]  # without those that were deleted meanwhile
    more = start + PAGE < len(ranked.topics) and asked.page < PAGES_RANKED
    return TopicsListed(
        asked,
        groups,
        totals,
        whole=False,
        next=asked.query(page=asked.page + 1) if more else "",
        previous=asked.query(page=asked.page - 1) if asked.page > 1 else "",
        matching=ranked.matching,
        watched=[short_name(group.topic) for group in groups],
    )
