"""The quick start of a namespace: a key, a program that runs as it is, and the news of its first message."""

from __future__ import annotations

from django.http import HttpResponse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.addresses import live_url
from admin_ui.forms import QuickStartForm
from admin_ui.key_view import key_view
from admin_ui.pages import add_error, crumbs, navigation, show
from admin_ui.quickstart.snippets import snippets
from admin_ui.translation.texts import gettext
from admin_ui.views.keys import new_key
from messaging.errors import InvalidName, MagnetarError
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import PERSISTENT, TopicName, parse_topic
from tenants.actions.lasting import end_of_right

PLACE_OF_TOKEN = "TOKEN"


@page
def quick_start(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    topic = _topic(tenant, namespace, request.GET.get("topic", "quick-start"))
    form = QuickStartForm(request.POST or None, tenant=tenant, namespace=namespace, initial={"topic": topic.local})
    addresses = broker.addresses()
    key, token = None, ""
    if request.method == "POST" and form.is_valid():
        try:
            grants = {f"{tenant}/{namespace}": ["produce", "consume"]}
            ends = end_of_right(request.actor, Action.KEY_ADMIN, Resource(tenant))  # so does what they make here
            new = new_key(request.actor, tenant, form.cleaned_data["name"], grants, ends)
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            topic, token, key = form.cleaned_data["topic"], new.token, key_view(new.key, {})
    return show(
        request,
        "pages/quick_start.html",
        navigation(request, "quick_start", tenant, namespace),
        crumbs=crumbs(tenant),
        form=form,
        key=key,
        token=token,
        topic=str(topic),
        snippets=snippets(addresses, str(topic), token or PLACE_OF_TOKEN),
        addresses=addresses,
        broker_away="" if addresses.broker_url else gettext("The broker is not running, so its address is not known yet."),
        live_url=live_url(tenant, namespace, topic=str(topic)),
    )


def _topic(tenant: str, namespace: str, local: str) -> TopicName:
    try:
        return parse_topic(str(TopicName(PERSISTENT, tenant, namespace, local)))
    except InvalidName:
        return TopicName(PERSISTENT, tenant, namespace, "quick-start")
