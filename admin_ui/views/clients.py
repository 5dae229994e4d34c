"""Disconnecting producers and consumers of a topic: who that is about, and that most of them connect again."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.form_pages import confirm_page, refused
from admin_ui.moves.texts import counted
from admin_ui.pages import crumbs, navigation
from admin_ui.translation.texts import gettext, gettext_lazy, ngettext
from admin_ui.views.topics import topic_name
from messaging.adminrpc.clients import CONSUMER, PRODUCER, ClientsDisconnected
from messaging.errors import MagnetarError, TopicNotFound
from messaging.limits.sizes import NAME_BYTES_MAX
from tenants.actions.clients import disconnect_clients

_FIELDS = ("kind", "name", "subscription", "address")
_BACK_AGAIN = gettext_lazy(
    "A client that is built to connect again does so at once, as the stock clients of Pulsar do: this frees what is stuck, and "
    "keeps nobody away. To keep somebody away, revoke the key or the permission."
)
_PRODUCERS = gettext_lazy("A producer sends again what has no receipt yet. With deduplication nothing is stored twice.")
_CONSUMERS = gettext_lazy("What a consumer has not acknowledged is delivered again, to it or to another.")


@page
def topic_disconnect(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    """Which clients, the query says: those that fit all of it."""
    name = topic_name(tenant, namespace, topic)
    chosen = {field: request.GET.get(field, "")[:NAME_BYTES_MAX] for field in _FIELDS}
    above = reverse("console:topic", args=[tenant, namespace, topic])
    outcome: list[ClientsDisconnected] = []

    def disconnect(*, dry_run: bool) -> ClientsDisconnected:
        kind, client, subscription, address = chosen.values()
        return disconnect_clients(
            request.actor, name, kind=kind, name=client, subscription=subscription, address=address, dry_run=dry_run
        )

    try:
        told = disconnect(dry_run=True)
    except TopicNotFound:
        raise Http404 from None
    except MagnetarError as error:
        return refused(request, error, above)

    def act() -> None:
        outcome.append(disconnect(dry_run=False))

    return confirm_page(
        request,
        navigation(request, "topic", tenant, namespace),
        act,
        crumbs=crumbs(tenant, namespace, (topic, above)),
        heading=gettext("Disconnect {chosen}").format(chosen=_whom(chosen, topic)),
        impact=[_disconnected(told), *_effects(told), _BACK_AGAIN],
        submit=gettext("Disconnect"),
        done=lambda: gettext("{clients} disconnected.").format(clients=_counts(outcome[-1])),
        back=above,
    )


def _whom(chosen: dict[str, str], topic: str) -> str:
    kinds = {PRODUCER: gettext("all producers"), CONSUMER: gettext("all consumers")}
    whom = chosen["name"] or kinds.get(chosen["kind"], gettext("all clients"))
    at = chosen["address"] if not chosen["name"] else ""
    text = gettext("{clients} of {topic} at {address}") if at else gettext("{clients} of {topic}")
    return text.format(clients=whom, topic=chosen["subscription"] or topic, address=at)


def _disconnected(answer: ClientsDisconnected) -> str:
    text = ngettext("{clients} is disconnected.", "{clients} are disconnected.", answer.producers + answer.consumers)
    return text.format(clients=_counts(answer))


def _counts(answer: ClientsDisconnected) -> str:
    counts = [(answer.producers, PRODUCER), (answer.consumers, CONSUMER)]
    return gettext(" and ").join(counted(count, noun) for count, noun in counts if count)


def _effects(answer: ClientsDisconnected) -> list[str]:
    return [*([_PRODUCERS] if answer.producers else []), *([_CONSUMERS] if answer.consumers else [])]
