"""The versions of a topic's schema: what changed from one to the next, and which connected clients use which."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import Http404, HttpResponse
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import crumbs, navigation, sentence, show
from admin_ui.schema_view import LINES_MAX, changes, laid_out, version_rows
from admin_ui.topic_lists import TopicSeen, first_one, look_at
from admin_ui.topic_stats import ProducerRow
from admin_ui.views.topics import topic_name
from messaging.adminrpc.methods import SCHEMAS_LIST
from messaging.adminrpc.schemas import SchemaStored
from messaging.adminrpc.topics import TopicClient, TopicRef

VERSIONS_SHOWN = 100


@page
def topic_schemas(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    """`version` in the query: the one that is shown; without, the latest."""
    name = topic_name(tenant, namespace, topic)
    found = look_at(name, (), first_one)
    answer, away = broker.ask_or_why(lambda rpc: rpc.call(SCHEMAS_LIST, TopicRef(topic=str(name))))
    versions = answer.versions if answer is not None else []
    chosen, before = _chosen(versions, request.GET.get("version", ""))
    lines = [] if chosen is None else laid_out(chosen)
    return show(
        request,
        "pages/topic_schemas.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (topic, reverse("console:topic", args=[tenant, namespace, topic]))),
        local=topic,
        persistent=name.persistent,
        partitions=found.partitions,
        away=found.away or sentence(away),
        rows=version_rows(
            versions[-VERSIONS_SHOWN:],
            _producers(found),
            () if found.members is None else found.members.consumers,
        ),
        count=len(versions),
        chosen=chosen,
        before=before,
        changes=None if chosen is None or before is None else changes(before, chosen),
        definition="\n".join(lines[:LINES_MAX]),
        lines_left=max(0, len(lines) - LINES_MAX),
    )


def _producers(found: TopicSeen) -> Sequence[TopicClient | ProducerRow] | None:
    """Of a partitioned topic a client has one on each partition, which the stats put together."""
    if found.view is None or found.members is None:
        return None
    return found.view.producers if found.members.partitions else found.members.producers


def _chosen(versions: list[SchemaStored], asked: str) -> tuple[SchemaStored | None, SchemaStored | None]:
    """The version that is shown, and the one before it. 404 for one that is not there."""
    if not versions:
        return None, None
    index = len(versions) - 1
    if asked:
        numbers = [str(each.version) for each in versions]
        if asked not in numbers:
            raise Http404
        index = numbers.index(asked)
    return versions[index], versions[index - 1] if index else None
