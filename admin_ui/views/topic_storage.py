"""What is stored of a topic: its ledgers, and where its subscriptions stand in them."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.http import Http404, HttpResponse
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.addresses import short_name
from admin_ui.pages import crumbs, navigation, sentence, show
from admin_ui.views.topics import topic_name
from messaging.adminrpc.methods import TOPICS_INTERNAL_STATS, TOPICS_PARTITIONED_INTERNAL_STATS, TOPICS_PARTITIONS
from messaging.adminrpc.topics import PartitionsGet, TopicRef
from messaging.errors import MagnetarError, NotFound
from messaging.protocol.names import TopicName

ROWS_SHOWN = 200  # of ledgers, the newest; of subscriptions and partitions, the first


class LedgerRow(NamedTuple):
    """`open`: it is written to."""

    ledger_id: int
    entries: int
    size_bytes: int
    open: bool


class CursorRow(NamedTuple):
    name: str
    position: str
    read: str
    ranges: int


class PartRow(NamedTuple):
    local: str
    ledgers: int
    entries: int
    size_bytes: int
    state: str


@page
def topic_storage(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    if not name.persistent:
        raise Http404
    partitions, stats, away = _look(name)
    ledgers = ledger_rows(stats)
    cursors = cursor_rows(stats)
    parts = part_rows(stats)
    return show(
        request,
        "pages/topic_storage.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (topic, reverse("console:topic", args=[tenant, namespace, topic]))),
        local=topic,
        persistent=True,
        partitions=partitions or None,
        away=away,
        stats=stats,
        ledgers=ledgers[:ROWS_SHOWN],
        ledger_count=len(ledgers),
        cursors=cursors[:ROWS_SHOWN],
        cursor_count=len(cursors),
        parts=parts[:ROWS_SHOWN],
        part_count=len(parts),
        compacted=_compacted(stats),
    )


def _look(name: TopicName) -> tuple[int, dict[str, Any], str]:
    """The number of partitions, the internal stats, and why they are not known. 404 for a topic that does not exist."""
    asked = TopicRef(topic=str(name))
    try:
        partitions = broker.ask(lambda rpc: rpc.call(TOPICS_PARTITIONS, PartitionsGet(topic=str(name)))).partitions
        method = TOPICS_PARTITIONED_INTERNAL_STATS if partitions else TOPICS_INTERNAL_STATS
        return partitions, broker.ask(lambda rpc: rpc.call(method, asked)).stats, ""
    except NotFound:
        raise Http404 from None
    except MagnetarError as error:
        return 0, {}, sentence(broker.why(error))


def _compacted(stats: dict[str, Any]) -> dict[str, Any]:
    """Empty: it was never compacted."""
    ledger: dict[str, Any] = stats.get("compactedLedger") or {}
    return ledger if ledger.get("ledgerId", -1) >= 0 else {}


def ledger_rows(stats: dict[str, Any]) -> list[LedgerRow]:
    """Newest first. The last one is listed without figures: they are those of the current ledger."""
    listed = stats.get("ledgers") or []
    rows = [LedgerRow(each["ledgerId"], each["entries"], each["size"], False) for each in listed[:-1]]
    if listed:
        current = stats.get("currentLedgerEntries", 0), stats.get("currentLedgerSize", 0)
        rows.append(LedgerRow(listed[-1]["ledgerId"], *current, stats.get("state") != "Terminated"))
    return rows[::-1]


def cursor_rows(stats: dict[str, Any]) -> list[CursorRow]:
    return [
        CursorRow(name, each["markDeletePosition"], each["readPosition"], each["totalNonContiguousDeletedMessagesRange"])
        for name, each in sorted((stats.get("cursors") or {}).items())
    ]


def part_rows(stats: dict[str, Any]) -> list[PartRow]:
    return [
        PartRow(short_name(name), len(each["ledgers"]), each["numberOfEntries"], each["totalSize"], each["state"])
        for name, each in (stats.get("partitions") or {}).items()
    ]
