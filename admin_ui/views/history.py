"""History of a tenant, a namespace, a topic and a subscription: charts of a span that is in the address, and a table of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone

from admin_ui.access import ConsoleRequest, page
from admin_ui.history.charts import OF_SUBSCRIPTION, OF_TOPICS, SLACK_MS, Chart, ChartKind, charts_of, written
from admin_ui.history.ticks import ticks_of
from admin_ui.pages import crumbs, navigation, sentence, show
from admin_ui.topic_lists import ShownMembers, look_at, named_figures
from admin_ui.topic_stats import SubscriptionRow
from admin_ui.translation import figures
from admin_ui.translation.texts import gettext, gettext_lazy
from admin_ui.views.topics import topic_name
from messaging.adminrpc.topics import TopicMembers
from messaging.errors import InvalidName, InvalidValue
from messaging.history.points import DAY_MS
from messaging.permissions.model import Action
from messaging.protocol.names import TopicName, parse_topic
from tenants.actions.topics import topic_resource
from tenants.history.figures import HistoryFigures, figures_of
from tenants.history.reading import CELLS_MAX, STEPS_MS, Subject, read, subject_of
from tenants.history.spans import SPANS_MS, AskedSpan, aligned, asked_span

PENDING_MS = 150_000  # so long after its end a minute may still come
ROWS_MAX = 200
HANDLES_MAX = 50  # subscriptions, those that stand farthest back
EARLIER_MS = {"day": DAY_MS, "week": 7 * DAY_MS}
COUNTED = ("messages_in", "messages_out", "bytes_in", "bytes_out", "expired_entries")  # in a step: half of one has half of it
COMPARED = {
    "": gettext_lazy("nothing"),
    "day": gettext_lazy("the day before"),
    "week": gettext_lazy("the week before"),
    "topic": gettext_lazy("another topic"),
}
SPAN_TEXTS = {
    "1h": gettext_lazy("1 hour"),
    "6h": gettext_lazy("6 hours"),
    "24h": gettext_lazy("24 hours"),
    "7d": gettext_lazy("7 days"),
    "30d": gettext_lazy("30 days"),
}


@dataclass(frozen=True)
class Comparison:
    """`steps`: on the same grid as what they are compared with; none if `problem` says why not."""

    text: str = ""
    steps: Sequence[HistoryFigures] = ()
    problem: str = ""


class Handle(NamedTuple):
    """A subscription in a span. `at_ms`: when the oldest entry that it has not acknowledged was stored, now if it has none;
    `known`: whether that is known. `place_ms`: that, within the span. `reset`: an address, "" where it may not be moved."""

    name: str
    url: str
    reset: str
    at_ms: int
    place_ms: int
    backlog: int | None
    known: bool
    consumers: int


@page
def tenant_history(request: ConsoleRequest, tenant: str) -> HttpResponse:
    return _show(request, subject_of(tenant), OF_TOPICS, crumbs(tenant), nav=navigation(request, "tenant", tenant))


@page
def namespace_history(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    subject = subject_of(tenant, f"{tenant}/{namespace}")
    nav = navigation(request, "namespace", tenant, namespace)
    return _show(request, subject, OF_TOPICS, crumbs(tenant), nav=nav, tabs="namespace")


@page
def topic_history(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    subject = subject_of(tenant, f"{tenant}/{namespace}", str(name))
    nav = navigation(request, "topic", tenant, namespace)
    above = crumbs(tenant, namespace)
    timeline = reverse("console:topic_timeline", args=[tenant, namespace, topic]) if name.persistent else ""
    return _show(
        request, subject, OF_TOPICS, above, nav=nav, tabs="topic", local=topic, persistent=name.persistent, timeline=timeline
    )


@page
def subscription_history(request: ConsoleRequest, tenant: str, namespace: str, topic: str, subscription: str) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    subject = subject_of(tenant, f"{tenant}/{namespace}", str(name), subscription)
    of_topic = (topic, reverse("console:topic", args=[tenant, namespace, topic]))
    back = (subscription, reverse("console:subscription", args=[tenant, namespace, topic, subscription]))
    nav = navigation(request, "topic", tenant, namespace)
    above = crumbs(tenant, namespace, of_topic, back)
    may_replay = name.persistent and request.actor.may(Action.CURSOR_ADMIN, topic_resource(name, subscription))
    reset = reverse("console:subscription_reset", args=[tenant, namespace, topic, subscription]) if may_replay else ""
    return _show(request, subject, OF_SUBSCRIPTION, above, nav=nav, local=topic, subscription=subscription, reset=reset)


@page
def topic_timeline(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    """The part of a topic's history that shows where its subscriptions stand in the span, and moves them."""
    name, now_ms = topic_name(tenant, namespace, topic), time.time_ns() // 1_000_000
    try:
        span = asked_span(request.GET.dict(), now_ms)
    except InvalidValue:
        span = asked_span({}, now_ms)
    found = look_at(name, ("behind",), _farthest_back)
    rows = [] if found.view is None else found.view.subscriptions
    handles = [_handle(request, [tenant, namespace, topic], name, row, span, now_ms) for row in rows]
    handles.sort(key=lambda handle: handle.at_ms)
    nav = navigation(request, "topic", tenant, namespace)
    more = 0 if found.members is None else max(0, len(found.members.subscriptions) - HANDLES_MAX)
    away, again = sentence(found.away), request.get_full_path()
    return show(request, "parts/history_timeline.html", nav, span=span, handles=handles, more=more, away=away, again=again)


def _farthest_back(members: TopicMembers) -> ShownMembers:
    rows = sorted(named_figures(members, "behind"), key=lambda one: one.figure, reverse=True)
    return ShownMembers(one.name for one in rows[:HANDLES_MAX])


def _handle(
    request: ConsoleRequest, place: list[str], name: TopicName, row: SubscriptionRow, span: AskedSpan, now_ms: int
) -> Handle:
    known = row.backlog == 0 or row.oldest_s is not None
    at_ms = now_ms if row.oldest_s is None else now_ms - row.oldest_s * 1000
    may = name.persistent and request.actor.may(Action.CURSOR_ADMIN, topic_resource(name, row.name))
    return Handle(
        row.name,
        reverse("console:subscription", args=[*place, row.name]),
        reverse("console:subscription_reset", args=[*place, row.name]) if may else "",
        at_ms,
        min(max(at_ms, span.from_ms), span.until_ms) // 1000 * 1000,
        row.backlog,
        known,
        len(row.consumers),
    )


def _show(
    request: ConsoleRequest, subject: Subject, kinds: Sequence[ChartKind], above: list[tuple[str, str]], **context: Any
) -> HttpResponse:
    now_ms, problem = time.time_ns() // 1_000_000, ""
    try:
        span = asked_span(request.GET.dict(), now_ms)
    except InvalidValue as error:
        problem, span = sentence(error.message), asked_span({}, now_ms)
    as_table = "table" in request.GET
    if as_table:
        span = _coarser(span)
    steps = figures_of(read(subject, span.from_ms, span.until_ms, span.step_ms))
    comparison = _compared(request.GET, subject, span, now_ms)
    charts = [] if as_table else charts_of(kinds, steps, comparison.steps, span.step_ms, _pending(span, now_ms))
    known_s = sum(min(each.known_seconds, span.step_ms / 1000) for each in steps)
    return show(
        request,
        "pages/history.html",
        status=400 if problem else 200,
        crumbs=above,
        problem=problem,
        subject=subject,
        span=span,
        spans=[(name, text, span.name == name, _query(request.GET, span=name)) for name, text in SPAN_TEXTS.items()],
        now_ms=now_ms,
        step_s=span.step_ms // 1000,
        ticks=ticks_of(span.from_ms, span.until_ms, timezone.get_current_timezone()),
        charts=charts,
        data=_data(span, charts),
        compare=request.GET.get("compare", ""),
        compared_with=[each for each in COMPARED.items() if each[0] != "topic" or subject.topic],
        other=request.GET.get("other", ""),
        comparison=comparison,
        totals=_totals(kinds, steps, comparison),
        known_part=known_s * 1000 / span.width_ms,
        known_percent=written(known_s * 1000 / span.width_ms, "percent"),
        span_query=urlencode({"from": f"{_utc(span.from_ms)}Z", "until": f"{_utc(span.until_ms)}Z"}),
        replay_query=urlencode({"time": _utc(span.from_ms), "until": _utc(span.until_ms)}),
        nothing=not any(each.known for each in steps),
        as_table=as_table,
        heads=[kind.title if len(kind.measures) == 1 else f"{kind.title}: {measure.label}" for kind, measure in _measures(kinds)],
        rows=_rows(kinds, span, steps) if as_table else [],
        table_query=_query(request.GET, table="1"),
        chart_query=_query(request.GET, table=""),
        form_fields=[(name, value) for name, value in request.GET.items() if name in ("span", "from", "until")],
        of_many=not subject.topic,
        **{"tabs": "", "local": "", "subscription": "", **context},
    )


def _utc(at_ms: int) -> str:
    """As forms take it."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _coarser(span: AskedSpan) -> AskedSpan:
    """With no more steps than a table has rows."""
    step_ms = next((step for step in STEPS_MS if step >= span.step_ms and span.width_ms / step <= ROWS_MAX), STEPS_MS[-1])
    return aligned(span.from_ms, span.until_ms, step_ms, span.name)


def _pending(span: AskedSpan, now_ms: int) -> int:
    """How many of the last steps are not over, or may still come."""
    return max(0, -(-(span.until_ms - (now_ms - PENDING_MS)) // span.step_ms))


def _compared(query: QueryDict, subject: Subject, span: AskedSpan, now_ms: int) -> Comparison:
    asked = query.get("compare", "")
    if asked in EARLIER_MS:
        by_ms = EARLIER_MS[asked]
        earlier = span.earlier(by_ms, now_ms)
        if earlier.step_ms > span.step_ms and span.width_ms // span.step_ms <= CELLS_MAX:
            steps = figures_of(read(subject, earlier.from_ms, earlier.until_ms, earlier.step_ms))
            offset_ms = span.from_ms - by_ms - earlier.from_ms
            return Comparison(COMPARED[asked], _spread(steps, span, earlier.step_ms, offset_ms))
        return Comparison(COMPARED[asked], figures_of(read(subject, span.from_ms - by_ms, span.until_ms - by_ms, span.step_ms)))
    if asked == "topic" and subject.topic and query.get("other"):
        try:
            local = str(query["other"]).strip()
            name = parse_topic(local if "://" in local else f"persistent://{subject.namespace}/{local}")
        except InvalidName as error:
            return Comparison(problem=sentence(error.message))
        if str(name.namespace) != subject.namespace:
            return Comparison(
                problem=gettext("Only topics of {namespace} can be compared here.").format(namespace=subject.namespace)
            )
        about = subject._replace(topic=str(name))
        return Comparison(name.local, figures_of(read(about, span.from_ms, span.until_ms, span.step_ms)))
    return Comparison()


def _spread(steps: Sequence[HistoryFigures], span: AskedSpan, step_ms: int, offset_ms: int) -> list[HistoryFigures]:
    """Coarser steps on the grid of the span: each of its steps has the mean of the coarser one that it lies in, and of what was
    counted there an equal part, so that sums stay what they are."""
    parts = step_ms // span.step_ms
    found = []
    for at_ms in range(offset_ms, offset_ms + span.width_ms, span.step_ms):
        coarse, part = steps[min(len(steps) - 1, at_ms // step_ms)], at_ms % step_ms // span.step_ms
        counted = {key: total for key in COUNTED if (total := getattr(coarse, key)) is not None}
        shares = {key: total * (part + 1) // parts - total * part // parts for key, total in counted.items()}
        found.append(msgspec.structs.replace(coarse, **shares))
    return found


def _query(query: QueryDict, **changes: str) -> str:
    """The query of the page with some changes. A span replaces its bounds; "" leaves out."""
    kept = {name: value for name, value in query.items() if name in ("span", "from", "until", "compare", "other", "table")}
    if "span" in changes:
        kept = {name: value for name, value in kept.items() if name not in ("from", "until")}
    return urlencode({name: value for name, value in {**kept, **changes}.items() if value})


def _data(span: AskedSpan, charts: Sequence[Chart]) -> dict[str, Any]:
    """What history-charts.js reads out."""
    shown = {
        chart.kind.name: {
            "form": chart.kind.form,
            "lines": [
                {"label": measure.label, "values": chart.values[measure.key], "other": chart.values.get(f"other {measure.key}")}
                for measure in chart.kind.measures
                if measure.key in chart.values
            ],
        }
        for chart in charts
    }
    return {"from": span.from_ms, "step": span.step_ms, "count": span.width_ms // span.step_ms, "charts": shown}


def _measures(kinds: Sequence[ChartKind]) -> list[tuple[ChartKind, Any]]:
    return [(kind, measure) for kind in kinds for measure in kind.measures]


def _rows(kinds: Sequence[ChartKind], span: AskedSpan, steps: Sequence[HistoryFigures]) -> list[dict[str, Any]]:
    return [
        {
            "begins_ms": span.from_ms + index * span.step_ms,
            "known": written(
                (1 if each.known_seconds * 1000 >= span.step_ms - SLACK_MS else each.known_seconds * 1000 / span.step_ms)
                if each.known
                else 0,
                "percent",
            ),
            "values": [written(measure.value(each), kind.form) for kind, measure in _measures(kinds)],
        }
        for index, each in enumerate(steps)
    ]


def _totals(kinds: Sequence[ChartKind], steps: Sequence[HistoryFigures], comparison: Comparison) -> list[dict[str, str]]:
    """Sums and extremes of the span, beside those of what it is compared with."""
    rows: list[tuple[str, str, str, Any]] = [
        (gettext("Messages in"), "messages_in", "count", sum),
        (gettext("Messages out"), "messages_out", "count", sum),
        (gettext("Bytes in"), "bytes_in", "bytes", sum),
        (gettext("Bytes out"), "bytes_out", "bytes", sum),
        (gettext("Highest backlog, in entries"), "backlog_max", "count", max),
        (gettext("Oldest entry that waited"), "oldest_age_max_seconds", "span", max),
        (gettext("Longest time to a receipt"), "publish_ms_max", "ms", max),
        (gettext("Expired entries"), "expired_entries", "count", sum),
    ]
    of_subscription = all(measure.key != "rate_in" for kind in kinds for measure in kind.measures)
    left_out = {"messages_in", "bytes_in", "publish_ms_max"} if of_subscription else set()
    exact = {"messages_in", "messages_out", "expired_entries"}
    found = []
    for title, key, form, how in rows:
        if key in left_out:
            continue
        values = [_together(each, key, how) for each in (steps, comparison.steps)]
        texts = [figures.exact(int(value)) if key in exact and value is not None else written(value, form) for value in values]
        found.append({"title": title, "value": texts[0], "other": texts[1] if comparison.steps else ""})
    return found


def _together(steps: Sequence[HistoryFigures], key: str, how: Any) -> float | None:
    values = [value for each in steps if (value := getattr(each, key)) is not None]
    return how(values) if values else None


assert SPAN_TEXTS.keys() == SPANS_MS.keys()
