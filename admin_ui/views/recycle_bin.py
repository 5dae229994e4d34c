"""The recycle bin of a namespace: what can be restored, restore, delete for good."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import api_calls
from admin_ui.access import ConsoleRequest, page
from admin_ui.addresses import short_name
from admin_ui.form_pages import button_page, confirm_page
from admin_ui.pages import crumbs, navigation, sentence, show, show_error
from admin_ui.row_list import cursor_links
from admin_ui.translation.texts import gettext
from messaging.adminrpc.recycle_bin import Recycled
from messaging.errors import MagnetarError, NotFound
from tenants.actions.recycle_bin import ID_LENGTH_MAX, purge_topic, recycled_topic, recycled_topics, restore_topic

TOPICS_A_PAGE = 100


@page
def recycle_bin(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    after = request.GET.get("after", "")[:ID_LENGTH_MAX]
    items: list[Recycled] = []
    following = away = ""
    after = after if after.isascii() else ""
    try:
        answer = recycled_topics(request.actor, f"{tenant}/{namespace}", after=after, limit=TOPICS_A_PAGE)
        items, following = answer.items, answer.next_after
    except NotFound:
        raise Http404 from None
    except MagnetarError as error:
        away = sentence(error.message)
    return show(
        request,
        "pages/recycle_bin.html",
        navigation(request, "namespace", tenant, namespace),
        crumbs=crumbs(tenant, namespace),
        topics=[_row(item) for item in items],
        links=cursor_links(request.GET, following),
        away=away,
    )


def _row(item: Recycled) -> dict[str, Any]:
    return {
        "recycle_id": item.recycle_id,
        "name": short_name(item.topic),
        "partitions": item.partitions,
        "stored_bytes": item.stored_bytes,
        "deleted_at": _time(item.deleted_ms),
        "expires_at": _time(item.expires_ms),
        "deleted_by": item.deleted_by,
    }


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


@page
def recycled_restore(request: ConsoleRequest, tenant: str, namespace: str, recycled: str) -> HttpResponse:
    """A button of the list."""

    def after(restored: Recycled) -> tuple[str, str]:
        local = short_name(restored.topic)
        said = gettext("Topic {local} was restored, with its messages, subscriptions, schema and policies.").format(local=local)
        return said, reverse("console:topic", args=[tenant, namespace, local])

    back = reverse("console:recycle_bin", args=[tenant, namespace])
    return button_page(request, lambda: restore_topic(request.actor, f"{tenant}/{namespace}", recycled), back, after)


@page
def recycled_purge(request: ConsoleRequest, tenant: str, namespace: str, recycled: str) -> HttpResponse:
    name, back = f"{tenant}/{namespace}", reverse("console:recycle_bin", args=[tenant, namespace])
    try:
        item = recycled_topic(request.actor, name, recycled)
    except NotFound:
        raise Http404 from None
    except MagnetarError as error:
        show_error(request, error)
        return HttpResponseRedirect(back)
    local = short_name(item.topic)
    return confirm_page(
        request,
        navigation(request, "namespace", tenant, namespace),
        lambda: purge_topic(request.actor, name, recycled),
        crumbs=crumbs(tenant, namespace, (gettext("Recycle bin"), back)),
        heading=gettext("Delete {local} for good").format(local=local),
        impact=[gettext("All its messages and subscriptions are deleted permanently. It cannot be restored after that.")],
        name=local,
        submit=gettext("Delete for good"),
        done=gettext("Topic {local} was deleted for good.").format(local=local),
        back=back,
        calls=[api_calls.purge_recycled_topic(tenant, namespace, recycled)],
    )
