"""Topics: one of them with its clients, create, delete."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import broker, policy_texts
from admin_ui.access import ConsoleRequest, page, resource_of
from admin_ui.addresses import live_url, short_name
from admin_ui.forms import ConfirmForm, TopicForm
from admin_ui.moves.texts import counted
from admin_ui.pages import add_error, crumbs, navigation, sentence, show, show_message
from admin_ui.topic_lists import TopicLists, first_one, look_at
from admin_ui.topic_stats import TopicView
from admin_ui.translation.texts import gettext, ngettext
from messaging.adminrpc.methods import MESSAGES_TRACE
from messaging.adminrpc.topics import TopicMembers
from messaging.errors import InvalidName, MagnetarError, NotFound
from messaging.protocol.names import TopicName, parse_topic
from messaging.protocol.system_topics import is_system_topic
from tenants.actions import policy_views
from tenants.actions.recycle_bin import retention_hours
from tenants.actions.topic_policies import topic_policies as stored_policies
from tenants.actions.topics import create_topic, delete_topic
from tenants.broker_settings import policy_defaults
from tenants.names import trace_of


def topic_name(tenant: str, namespace: str, topic: str) -> TopicName:
    try:
        return parse_topic(resource_of({"tenant": tenant, "namespace": namespace, "topic": topic}).topic)
    except InvalidName:
        raise Http404 from None


def _shown(request: ConsoleRequest, name: TopicName) -> dict[str, Any]:
    """The same, with a page of each of its lists."""
    lists = TopicLists(request.GET, persistent=name.persistent)
    found = look_at(name, lists.figures, lists.choose)
    if found.view is None or found.members is None:
        return found.state
    return {**found.state, "unread": _unread(name, found.view, found.members), **lists.rows(found.view)}


def _producers(members: TopicMembers, view: TopicView) -> int:
    """How many clients have one: on a partitioned topic each has one on every partition."""
    return len(view.producers) if members.partitions else len(members.producers)


def _unread(name: TopicName, view: TopicView, members: TopicMembers) -> str:
    """What becomes of what is published while there is no subscription; "" where there is one, or nobody publishes."""
    published = bool(members.producers) or view.unread
    if not name.persistent or not published or members.subscriptions or is_system_topic(name):
        return ""
    try:
        kept = policy_texts.retention(policy_views.levels_of(stored_policies(name.base)), policy_defaults())
    except MagnetarError:
        return gettext("No subscription keeps what is published here. Whether retention does is not known.")
    if kept.text == gettext("not at all"):
        return gettext(
            "No subscription keeps what is published here, and no retention is set: messages may be deleted at any time."
        )
    return gettext("No subscription keeps what is published here. Retention does, {kept}.").format(kept=kept.text)


@page
def topic(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    further: tuple[tuple[str, str], ...] = ()
    if name.partition >= 0:
        base = short_name(str(name.base))
        further = ((base, reverse("console:topic", args=[tenant, namespace, base])),)
    fragment_url = reverse("console:topic_fragment", args=[tenant, namespace, topic])
    if request.GET:
        fragment_url += f"?{request.GET.urlencode()}"
    return show(
        request,
        "pages/topic.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, *further),
        topic=str(name),
        local=topic,
        persistent=name.persistent,
        live_url=live_url(tenant, namespace, topic=str(name)),
        fragment_url=fragment_url,
        **_shown(request, name),
    )


@page
def topic_fragment(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    """The part of the topic page that is refreshed every two seconds."""
    name = topic_name(tenant, namespace, topic)
    here = navigation(request, "topic", tenant, namespace)
    return show(request, "parts/topic_stats.html", here, local=topic, persistent=name.persistent, **_shown(request, name))


@page
def topic_trace(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    """What became of the message `id` (ledger:entry)."""
    name, message_id = topic_name(tenant, namespace, topic), request.GET.get("id", "").strip()[:40]
    traced, problem = None, ""
    if message_id:
        try:
            asked = trace_of(str(name), message_id)
            traced = broker.ask(lambda rpc: rpc.call(MESSAGES_TRACE, asked))
        except NotFound:
            raise Http404 from None
        except MagnetarError as error:
            problem = sentence(broker.why(error))
    return show(
        request,
        "pages/trace.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (topic, reverse("console:topic", args=[tenant, namespace, topic]))),
        message_id=message_id,
        traced=traced,
        problem=problem,
    )


@page
def topic_create(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    form = TopicForm(request.POST or None, tenant=tenant, namespace=namespace)
    if request.method == "POST" and form.is_valid():
        name: TopicName = form.cleaned_data["name"]
        try:
            create_topic(request.actor, name, form.cleaned_data["partitions"])
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            show_message(request, gettext("Topic {local} was created.").format(local=name.local))
            return HttpResponseRedirect(reverse("console:topic", args=[tenant, namespace, short_name(str(name))]))
    return show(
        request,
        "pages/form.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace),
        heading=gettext("New topic"),
        form=form,
        intro=gettext("Topics are created when clients first use them. Create one here to choose the number of partitions."),
        submit=gettext("Create topic"),
        cancel_url=reverse("console:namespace", args=[tenant, namespace]),
    )


@page
def topic_delete(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    found, hours = look_at(name, (), first_one), retention_hours(name)
    form = ConfirmForm(request.POST or None, expected=topic)
    if request.method == "POST" and form.is_valid():
        try:
            delete_topic(request.actor, name, force=True, partitioned=bool(found.partitions))
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            show_message(
                request,
                (
                    gettext("Topic {topic} was deleted. It is in the recycle bin.")
                    if hours
                    else gettext("Topic {topic} was deleted.")
                ).format(topic=topic),
            )
            return HttpResponseRedirect(reverse("console:namespace", args=[tenant, namespace]))
    impact = [gettext("All its messages are deleted permanently, acknowledged or not.")]
    if hours:
        impact[0] = ngettext(
            "It goes to the recycle bin of the namespace, and is deleted permanently after {hours} hour.",
            "It goes to the recycle bin of the namespace, and is deleted permanently after {hours} hours.",
            hours,
        ).format(hours=hours)
    elif not name.persistent:
        impact[0] = gettext("It is not persistent: there are no messages to delete.")
    elif found.partitions:
        impact[0] = gettext("All messages of its {partitions} are deleted permanently, acknowledged or not.").format(
            partitions=counted(found.partitions, "partition")
        )
    if found.view is None or found.members is None:
        impact.append(gettext("The connected clients are currently unknown. {away}").format(away=found.away))
    else:
        impact.append(
            (
                gettext("{producers} and {consumers} are disconnected. Kept with it: {subscriptions}.")
                if hours
                else gettext("{producers} and {consumers} are disconnected. Deleted with it: {subscriptions}.")
            ).format(
                producers=counted(_producers(found.members, found.view), "producer"),
                consumers=counted(len(found.members.consumers), "consumer"),
                subscriptions=counted(len(found.members.subscriptions), "subscription"),
            )
        )
    impact.append(
        gettext("If the namespace allows auto-creation, a client that reconnects creates an empty topic of the same name.")
    )
    return show(
        request,
        "pages/confirm.html",
        navigation(request, "topic", tenant, namespace),
        heading=gettext("Delete topic {topic}").format(topic=topic),
        crumbs=crumbs(tenant, namespace, (topic, reverse("console:topic", args=[tenant, namespace, topic]))),
        impact=impact,
        name=topic,
        form=form,
        submit=gettext("Delete topic"),
        cancel_url=reverse("console:topic", args=[tenant, namespace, topic]),
    )
