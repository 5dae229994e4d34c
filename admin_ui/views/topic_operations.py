"""What can be done to a whole topic: a page with all of it, and for each a page that says first what it would do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from django.http import Http404, HttpResponse
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.form_pages import confirm_page, refused
from admin_ui.forms import PartitionsForm
from admin_ui.moves.texts import counted
from admin_ui.pages import crumbs, navigation, sentence, show
from admin_ui.translation.figures import size
from admin_ui.translation.texts import gettext, gettext_lazy, ngettext
from admin_ui.views.topics import topic_name
from messaging.adminrpc.methods import TOPICS_COMPACTION_STATUS
from messaging.adminrpc.topics import TopicRef
from messaging.errors import MagnetarError, TopicNotFound
from messaging.permissions.model import Action
from messaging.protocol.names import TopicName
from tenants import actions
from tenants.access import Actor
from tenants.actions.effects import Counts, topic_counts
from tenants.actions.topic_operations import partition_count
from tenants.actions.topics import topic_resource

_CANNOT_BE_UNDONE = gettext_lazy("This cannot be undone.")
_GROWN = gettext_lazy("Clients notice new partitions within a minute or so, as they are set up, and begin to use them.")
_KEYS = gettext_lazy(
    "Messages of a key may go to another partition from then on: what is still in the old one may be delivered after what is new."
)


class Operation(NamedTuple):
    """`route`: of its page. `named`: the name of the topic is typed to confirm it. `of`: of which topics it is possible."""

    label: str
    route: str
    action: Action
    what: str
    of: Callable[[TopicName, int], bool]
    act: Callable[[Actor, TopicName], None]
    done: str
    effect: Callable[[Counts], list[str]]
    named: bool = False


def _stored(name: TopicName, partitions: int) -> bool:
    return name.persistent


def _clients(counts: Counts) -> str:
    return gettext("{producers} and {consumers}").format(
        producers=counted(counts["producers"], "producer"), consumers=counted(counts["consumers"], "consumer")
    )


def _of_partitions(counts: Counts) -> list[str]:
    return (
        [
            ngettext(
                "It is about its {partitions} partition.", "It is about all {partitions} partitions.", counts["partitions"]
            ).format(partitions=counts["partitions"])
        ]
        if counts["partitions"]
        else []
    )


def _unload(counts: Counts) -> list[str]:
    return [
        gettext("{clients} are disconnected, and connect again by themselves.").format(clients=_clients(counts)),
        gettext("Nothing is lost: what has no receipt is sent again, what is not acknowledged is delivered again."),
        *_of_partitions(counts),
    ]


def _compact(counts: Counts) -> list[str]:
    return [
        gettext(
            "A worker reads all of it and keeps the last message of each key, for readers and consumers that read compacted. "
            "All others are delivered every message as before."
        ),
        *_of_partitions(counts),
    ]


def _trim(counts: Counts) -> list[str]:
    return [
        gettext(
            "{storage_bytes} is stored now. What every subscription has acknowledged and the retention "
            "policy does not hold is deleted at once, rather than by the next round of maintenance."
        ).format(storage_bytes=size(counts["storage_bytes"])),
        gettext("Whole ledgers are deleted: the one that is written to stays."),
        *_of_partitions(counts),
    ]


def _truncate(counts: Counts) -> list[str]:
    return [
        gettext("All messages are deleted permanently: {storage_bytes}.").format(storage_bytes=size(counts["storage_bytes"])),
        gettext(
            "Never delivered: {backlog_entries} that {subscriptions} had not acknowledged. Subscriptions stay, without a backlog."
        ).format(
            backlog_entries=counted(counts["backlog_entries"], "entry"),
            subscriptions=counted(counts["subscriptions"], "subscription"),
        ),
        gettext("{clients} stay connected.").format(clients=_clients(counts)),
        *_of_partitions(counts),
        _CANNOT_BE_UNDONE,
    ]


def _terminate(counts: Counts) -> list[str]:
    return [
        gettext("Nothing can be published any more: {producers} now, and whoever tries later, are refused.").format(
            producers=counted(counts["producers"], "producer")
        ),
        gettext(
            "What is stored is delivered as before: {backlog_entries} to {subscriptions}. Consumers are then "
            "told that this was the last message."
        ).format(
            backlog_entries=counted(counts["backlog_entries"], "entry"),
            subscriptions=counted(counts["subscriptions"], "subscription"),
        ),
        *_of_partitions(counts),
        _CANNOT_BE_UNDONE,
    ]


OPERATIONS = (
    Operation(
        gettext_lazy("Unload"),
        "topic_unload",
        Action.OPERATE,
        gettext_lazy("Closes it and loads it anew: its clients connect again. Frees what is stuck; nothing is lost."),
        lambda name, partitions: True,
        actions.unload_topic,
        gettext_lazy("was unloaded"),
        _unload,
    ),
    Operation(
        gettext_lazy("Compact"),
        "topic_compact",
        Action.TOPIC_ADMIN,
        gettext_lazy("Keeps the last message of each key for those who read compacted."),
        _stored,
        actions.compact_topic,
        gettext_lazy("will be compacted by a worker"),
        _compact,
    ),
    Operation(
        gettext_lazy("Trim"),
        "topic_trim",
        Action.TOPIC_ADMIN,
        gettext_lazy("Deletes at once what retention no longer holds."),
        _stored,
        actions.trim_topic,
        gettext_lazy("was trimmed"),
        _trim,
    ),
    Operation(
        gettext_lazy("Truncate"),
        "topic_truncate",
        Action.TOPIC_ADMIN,
        gettext_lazy("Deletes every message, acknowledged or not. Subscriptions stay."),
        _stored,
        actions.truncate_topic,
        gettext_lazy("was truncated"),
        _truncate,
        named=True,
    ),
    Operation(
        gettext_lazy("Terminate"),
        "topic_terminate",
        Action.TOPIC_ADMIN,
        gettext_lazy("Nothing can be published to it any more, ever. What is stored is still delivered."),
        _stored,
        actions.terminate_topic,
        gettext_lazy("was terminated"),
        _terminate,
        named=True,
    ),
)
OF_ROUTE = {operation.route: operation for operation in OPERATIONS}


@page
def topic_operations(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    partitions, away = _partitions(name)
    may = {action: request.actor.may(action, topic_resource(name)) for action in (Action.OPERATE, Action.TOPIC_ADMIN)}
    compaction = ""
    if name.persistent and not partitions and not away and may[Action.TOPIC_ADMIN]:
        compaction = _compaction(name)
    rows = [
        {
            "operation": operation,
            "may": may[operation.action],
            "url": reverse(f"console:{operation.route}", args=[tenant, namespace, topic]),
            "state": compaction if operation.route == "topic_compact" else "",
        }
        for operation in OPERATIONS
        if operation.of(name, partitions)
    ]
    above = reverse("console:topic", args=[tenant, namespace, topic])
    return show(
        request,
        "pages/topic_operations.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (topic, above)),
        local=topic,
        persistent=name.persistent,
        partitions=partitions or None,
        away=away,
        rows=rows,
        may_administer_topic=may[Action.TOPIC_ADMIN],
    )


def _partitions(name: TopicName) -> tuple[int, str]:
    """How many, and why that is not known. 404 for a topic that does not exist."""
    try:
        return partition_count(name), ""
    except TopicNotFound:
        raise Http404 from None
    except MagnetarError as error:
        return 0, sentence(broker.why(error))


def _compaction(name: TopicName) -> str:
    """How the last one went, as a sentence."""
    status, _ = broker.ask_or_why(lambda rpc: rpc.call(TOPICS_COMPACTION_STATUS, TopicRef(topic=str(name))))
    if status is None or status.status == "NOT_RUN":
        return ""
    texts = {"RUNNING": gettext("It is being compacted now."), "SUCCESS": gettext("The last compaction succeeded.")}
    return texts.get(status.status, gettext("The last compaction failed: {error}").format(error=sentence(status.last_error)))


@page
def topic_unload(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    return _confirm(request, tenant, namespace, topic, OF_ROUTE["topic_unload"])


@page
def topic_compact(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    return _confirm(request, tenant, namespace, topic, OF_ROUTE["topic_compact"])


@page
def topic_trim(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    return _confirm(request, tenant, namespace, topic, OF_ROUTE["topic_trim"])


@page
def topic_truncate(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    return _confirm(request, tenant, namespace, topic, OF_ROUTE["topic_truncate"])


@page
def topic_terminate(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    return _confirm(request, tenant, namespace, topic, OF_ROUTE["topic_terminate"])


def _confirm(request: ConsoleRequest, tenant: str, namespace: str, topic: str, operation: Operation) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    back = reverse("console:topic_operations", args=[tenant, namespace, topic])
    try:
        counts = topic_counts(name, partition_count(name))
    except TopicNotFound:
        raise Http404 from None
    except MagnetarError as error:
        return refused(request, error, back)
    return confirm_page(
        request,
        navigation(request, "topic", tenant, namespace),
        lambda: operation.act(request.actor, name),
        crumbs=_above(tenant, namespace, topic),
        heading=gettext("{operation} topic {topic}").format(operation=operation.label, topic=topic),
        impact=operation.effect(counts),
        name=topic if operation.named else "",
        submit=gettext("{operation} topic").format(operation=operation.label),
        done=gettext("Topic {topic} {done}.").format(topic=topic, done=operation.done),
        back=back,
    )


def _above(tenant: str, namespace: str, topic: str) -> list[tuple[str, str]]:
    arguments = [tenant, namespace, topic]
    operations = (gettext("Operations"), reverse("console:topic_operations", args=arguments))
    return crumbs(tenant, namespace, (topic, reverse("console:topic", args=arguments)), operations)


@page
def topic_partitions(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    """How many there shall be; then what that does, to be confirmed."""
    name = topic_name(tenant, namespace, topic)
    back = reverse("console:topic_operations", args=[tenant, namespace, topic])
    count, away = _partitions(name)
    if not count:
        why = gettext("Topic {topic} is not partitioned: create another one with partitions.").format(topic=topic)
        return refused(request, away or why, back)
    form = PartitionsForm(request.POST or None, now=count)
    heading = gettext("More partitions for {topic}").format(topic=topic)
    if request.method == "POST" and form.is_valid():
        wanted: int = form.cleaned_data["partitions"]
        return confirm_page(
            request,
            navigation(request, "topic", tenant, namespace),
            lambda: actions.grow_topic(request.actor, name, wanted),
            crumbs=_above(tenant, namespace, topic),
            heading=heading,
            impact=[
                gettext("From {count} to {wanted} partitions. None can be taken away again.").format(count=count, wanted=wanted),
                _GROWN,
                _KEYS,
            ],
            submit=gettext("Add partitions"),
            done=gettext("Topic {topic} has {wanted} partitions now.").format(topic=topic, wanted=wanted),
            back=back,
            cancel=request.path,
            given={"partitions": str(wanted)},
        )
    return show(
        request,
        "pages/form.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=_above(tenant, namespace, topic),
        heading=heading,
        form=form,
        intro=ngettext("It has {count} partition now. {keys}", "It has {count} partitions now. {keys}", count).format(
            count=count, keys=_KEYS
        ),
        submit=gettext("Preview"),
        cancel_url=back,
    )
