"""Delayed messages of a topic: what comes due when, and cancelling and rescheduling them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.due_chart import HEIGHT, spans
from admin_ui.pages import crumbs, navigation, sentence, show, show_error, show_message
from admin_ui.row_list import cursor_links
from admin_ui.time_zones import zoned_label
from admin_ui.translation.figures import exact
from admin_ui.translation.texts import gettext, gettext_lazy, ngettext
from admin_ui.views.topics import topic_name
from messaging.adminrpc.methods import DELAYED_COUNTS
from messaging.adminrpc.topics import TopicRef
from messaging.errors import MagnetarError, NotAuthorized, NotFound
from messaging.permissions.model import Action
from messaging.protocol.names import NAME_LENGTH_MAX, TopicName
from tenants.actions.delayed import change_delayed, change_delayed_key
from tenants.actions.topics import topic_resource
from tenants.delayed import list_delayed
from tenants.http.request_state import state_of
from tenants.masking import masks_of
from tenants.names import message_of
from workers.billing.charts import WIDTH

SHOWN = 50
CHANGED_AT_ONCE = 1_000


class ChangeForm(forms.Form):
    """Of one message, or of those of a key. Without a time it is cancelled."""

    message = forms.CharField(required=False, max_length=80)
    key = forms.CharField(required=False, max_length=NAME_LENGTH_MAX, strip=False)
    deliver_at = forms.DateTimeField(required=False, label=zoned_label(gettext_lazy("New time")))
    decision = forms.ChoiceField(choices=[("cancel", "cancel"), ("reschedule", "reschedule")])

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if given.get("decision") == "reschedule" and not given.get("deliver_at"):
            raise forms.ValidationError(gettext("Give the new time, as 2026-03-01 08:00."))
        if bool(given.get("message")) == bool(given.get("key")):
            raise forms.ValidationError(gettext("Name a message or a key."))
        return given


@page
def delayed(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    name, nav = topic_name(tenant, namespace, topic), navigation(request, "topic", tenant, namespace)
    here = reverse("console:delayed", args=[tenant, namespace, topic])
    if request.method == "POST":
        _change(request, name, ChangeForm(request.POST))
        return HttpResponseRedirect(here)
    key, listed, problem = request.GET.get("key", ""), None, ""
    may_read = request.actor.may(Action.MESSAGE_READ, topic_resource(name))
    if may_read:
        try:
            masks, after = masks_of(request.actor, name), request.GET.get("after", "")
            listed = broker.ask(lambda _: list_delayed(name, key, after, SHOWN, masks))
        except MagnetarError as error:
            problem = sentence(error.message if isinstance(error, NotAuthorized) else broker.why(error))
    state_of(request).nothing_read = listed is None
    return show(
        request,
        "pages/delayed.html",
        nav,
        crumbs=crumbs(tenant, namespace),
        local=topic,
        key=key,
        listed=listed,
        links=cursor_links(request.GET, (listed.next or "") if listed else ""),
        problem=problem,
        may_read=may_read,
        may_change=request.actor.may(Action.PRODUCE, topic_resource(name)),
        here=here,
        **_chart(name),
    )


@page
def delayed_chart(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    """The part of the topic page that shows what comes due."""
    nav = navigation(request, "topic", tenant, namespace)
    return show(request, "parts/delayed_chart.html", nav, local=topic, linked=True, **_chart(topic_name(tenant, namespace, topic)))


def _chart(name: TopicName) -> dict[str, Any]:
    """404 if the topic does not exist."""
    try:
        found = broker.ask(lambda rpc: rpc.call(DELAYED_COUNTS, TopicRef(topic=str(name))))
    except NotFound:
        raise Http404 from None
    except MagnetarError as error:
        return {"spans": [], "away": sentence(broker.why(error))}
    return {"spans": spans(found.buckets), "counts": found, "away": "", "chart_width": WIDTH, "chart_height": HEIGHT}


def _change(request: ConsoleRequest, name: TopicName, form: ChangeForm) -> None:
    if not form.is_valid():
        show_error(request, " ".join(str(one) for errors in form.errors.values() for one in errors))
        return
    given = form.cleaned_data
    at: datetime | None = given["deliver_at"] if given["decision"] == "reschedule" else None
    at_ms = None if at is None else int(at.timestamp() * 1000)
    try:
        if given["message"]:
            change_delayed(request.actor, message_of(name, given["message"]), at_ms)
            text = gettext("Message {message} was cancelled.") if at is None else gettext("Message {message} was rescheduled.")
            show_message(request, text.format(message=given["message"]))
            return
        done = change_delayed_key(request.actor, name, given["key"], at_ms, (-1, -1), CHANGED_AT_ONCE)
    except MagnetarError as error:
        show_error(request, error)
        return
    changed = done.changed
    text = (
        ngettext("{changed} message was cancelled.", "{changed} messages were cancelled.", changed)
        if at is None
        else ngettext("{changed} message was rescheduled.", "{changed} messages were rescheduled.", changed)
    )
    said = [text.format(changed=exact(changed))]
    if done.refused_count:
        refused = ngettext(
            "{refused} was delivered or acknowledged already.",
            "{refused} were delivered or acknowledged already.",
            done.refused_count,
        )
        said.append(refused.format(refused=exact(done.refused_count)))
    if done.next:
        said.append(gettext("There may be more: do it again."))
    show_message(request, " ".join(said))
