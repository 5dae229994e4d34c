"""Messages as files, and publishing one."""

from __future__ import annotations

import base64

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.form_pages import carried_out
from admin_ui.messages.publish_form import PublishForm, initial_of, why_not_again
from admin_ui.messages.search import search_of
from admin_ui.pages import crumbs, navigation, show, show_error, show_message
from admin_ui.translation.texts import gettext
from admin_ui.views.topics import topic_name
from messaging.adminrpc.messages import MessagesPublish
from messaging.adminrpc.methods import MESSAGES_PUBLISH
from messaging.adminrpc.topics import MessageIdAnswer
from messaging.errors import MagnetarError, NotAuthorized, NotFound, TopicNotFound
from messaging.payloads.masks import NO_MASKS
from messaging.permissions.model import Action
from messaging.protocol.names import TopicName
from tenants.actions.change import limit_rate, record
from tenants.actions.topics import topic_resource
from tenants.broker import rpc
from tenants.browsing.export import export_messages
from tenants.browsing.pages import MessageRow, browse, message_at, messages_read, require_reading
from tenants.browsing.query import MessageQuery, message_query
from tenants.http.authentication import actor_now
from tenants.http.request_state import state_of
from tenants.masking import masks_of, require_unmasked

PAYLOAD_BYTES_MAX = 16 << 20
EDITED_BYTES_MAX = 256 << 10


@page
def messages_export(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    """What the form of the messages page asks for, as JSON lines or CSV."""
    name, as_csv = topic_name(tenant, namespace, topic), request.GET.get("as") == "csv"
    try:
        search = search_of(name, request.GET)
        require_reading(request.actor, name, search.query)

        def ask(query: MessageQuery) -> object:
            now = actor_now(request)
            require_reading(now, name, query)
            masks = masks_of(now, name)
            return broker.ask(lambda rpc: browse(rpc, name, query, masks))

        made = export_messages(ask, search.query, as_csv=as_csv, columns=search.columns)  # type: ignore[arg-type]
        request.actor.trail.after = made.read
    except NotFound:
        raise Http404 from None
    except NotAuthorized as error:
        raise PermissionDenied(error.message) from None
    except MagnetarError as error:
        return _back(request, error, reverse("console:messages", args=[tenant, namespace, topic]))
    response = HttpResponse(made.content, content_type="text/csv; charset=utf-8" if as_csv else "application/jsonl")
    part = "" if made.complete else "-first"
    return _attached(response, f"messages{part}-{made.messages}.{'csv' if as_csv else 'jsonl'}")


@page
def message_payload(request: ConsoleRequest, tenant: str, namespace: str, topic: str, message_id: str) -> HttpResponse:
    """The bytes of a payload, uncompressed; of an encrypted one as they are stored."""
    name = topic_name(tenant, namespace, topic)
    try:
        query = message_query(name, {"position": message_id, "format": "hex"})
        require_unmasked(request.actor, name)
        row = broker.ask(lambda rpc: message_at(rpc, name, query, NO_MASKS, PAYLOAD_BYTES_MAX))
        request.actor.trail.after = messages_read([row.message_id])
    except TopicNotFound:
        raise Http404 from None
    except MagnetarError as error:
        return _back(request, error, reverse("console:message", args=[tenant, namespace, topic, message_id]))
    response = HttpResponse(base64.b64decode(row.payload_base64), content_type="application/octet-stream")
    part = "-first" if row.payload_cut else ""
    return _attached(response, f"message-{row.message_id.replace(':', '-')}{part}.bin")


@page
def message_publish(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    """Publishes a message; `from`: one like that, which takes the right to read it."""
    name, parts = topic_name(tenant, namespace, topic), [tenant, namespace, topic]
    like = request.GET.get("from", "")[:80]
    row = message_to_edit(request, name, like) if like and request.method == "GET" else None
    form = PublishForm(request.POST or None, initial=initial_of(row) if row is not None else {})
    published: list[MessageIdAnswer] = []

    def publish() -> None:
        asked = MessagesPublish(topic=str(name), messages=[form.message()])
        limit_rate(request.actor)
        published.extend(rpc().call(MESSAGES_PUBLISH, asked).ids)  # `broker.ask` gives up sooner, and says to try again
        request.actor.trail.after = {"messages": 1}

    if carried_out(request, form, publish):
        (stored,) = published
        message_id = f"{stored.ledger_id}:{stored.entry_id}:{stored.partition}:{stored.batch_index}"
        show_message(request, gettext("It was published as message {message_id}.").format(message_id=message_id))
        may_read = request.actor.may(Action.MESSAGE_READ, topic_resource(name))
        return HttpResponseRedirect(
            reverse("console:message", args=[*parts, message_id]) if may_read else reverse("console:topic", args=parts)
        )
    return show(
        request,
        "pages/form.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (topic, reverse("console:topic", args=parts))),
        heading=gettext("Publish again: {like}").format(like=like) if row is not None else gettext("Publish a message"),
        form=form,
        intro=gettext("It becomes a new message of this topic, for every subscription. It is published without a schema version."),
        submit=gettext("Publish"),
        cancel_url=reverse("console:topic", args=parts),
    )


def message_to_edit(request: ConsoleRequest, name: TopicName, message_id: str) -> MessageRow | None:
    """None, with a line that says so, for one that cannot be published again."""
    if not request.actor.may(Action.MESSAGE_READ, topic_resource(name)):
        raise PermissionDenied(gettext("you may not read messages here: publish one without another as its model"))
    try:
        query = message_query(name, {"position": message_id})
        masks = masks_of(request.actor, name)
        row = broker.ask(lambda rpc: message_at(rpc, name, query, masks, EDITED_BYTES_MAX))
    except MagnetarError as error:
        show_error(request, error)
        return None
    if why := why_not_again(row):
        show_error(request, why)
        return None
    read = messages_read([row.message_id])
    record(request.actor, "message.read", name.tenant, str(name), None, {"message_id": message_id, **read})
    return row


def _back(request: ConsoleRequest, error: MagnetarError, address: str) -> HttpResponse:
    state_of(request).nothing_read = True
    show_error(request, error)
    return HttpResponseRedirect(address)


def _attached(response: HttpResponse, file_name: str) -> HttpResponse:
    response["Content-Disposition"] = f'attachment; filename="{file_name}"'
    response["Cache-Control"] = "no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response
