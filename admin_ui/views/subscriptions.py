"""Subscriptions: one of them with its consumers, and its dead-letter policy."""

from __future__ import annotations

from datetime import UTC, datetime

from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.form_pages import carried_out
from admin_ui.forms import DeadLetterForm, SubscriptionForm
from admin_ui.moves.texts import DONE, place_of
from admin_ui.pages import add_error, crumbs, explain, navigation, show, show_message
from admin_ui.topic_lists import ConsumerList, ShownMembers, first_one, look_at
from admin_ui.topic_stats import SubscriptionRow
from admin_ui.translation.figures import exact
from admin_ui.translation.texts import gettext
from admin_ui.views.topics import topic_name
from messaging.adminrpc.subscriptions import DeadLetterPolicyAnswer
from messaging.errors import MagnetarError, NotFound, SubscriptionNotFound, TopicNotFound
from messaging.limits.sizes import NAME_BYTES_MAX
from messaging.permissions.model import Action
from messaging.protocol.names import TopicName
from tenants.actions.cursor_moves import RecordedMove, create_subscription, recorded_moves
from tenants.actions.subscriptions import dead_letter_policy, remove_dead_letter_policy, set_dead_letter_policy
from tenants.actions.topics import topic_resource


@page
def subscription(request: ConsoleRequest, tenant: str, namespace: str, topic: str, subscription: str) -> HttpResponse:
    """Also of one that was deleted, while that can be undone."""
    name = topic_name(tenant, namespace, topic)
    if len(subscription.encode()) > NAME_BYTES_MAX:
        raise Http404
    consumers = ConsumerList(request.GET)
    state = look_at(
        name, (), lambda members: ShownMembers([subscription], [one.name for one in consumers.choose(members)]), subscription
    )
    may_move = request.actor.may(Action.CURSOR_ADMIN, topic_resource(name, subscription))
    moves = recorded_moves(request.actor, name, subscription, datetime.now(UTC)) if may_move else []
    row: SubscriptionRow | None = None
    if state.view is not None:
        row = next((each for each in state.view.subscriptions if each.name == subscription), None)
        if row is None and not moves:
            raise Http404
    return show(
        request,
        "pages/subscription.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (topic, reverse("console:topic", args=[tenant, namespace, topic]))),
        local=topic,
        persistent=name.persistent,
        subscription=subscription,
        row=row,
        consumers=None if state.view is None else consumers.rows(state.view),
        deleted=row is None and not state.away,
        may_move=may_move,
        moves=[{"done": DONE[move.action], "move": move, "places": _places(move)} for move in moves],
        partitions=state.partitions,
        away=state.away,
        at_ms=state.at_ms,
    )


@page
def subscription_create(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    name, form = topic_name(tenant, namespace, topic), SubscriptionForm(request.POST or None)
    back = reverse("console:topic", args=[tenant, namespace, topic])
    away = look_at(name, (), first_one).away
    if not name.persistent:
        raise Http404  # its subscriptions last as long as their consumers

    def create() -> None:
        create_subscription(request.actor, name, form.cleaned_data["name"], form.cleaned_data["position"])

    if carried_out(request, form, create):
        show_message(request, gettext("Subscription {name} was created.").format(name=form.cleaned_data["name"]))
        return HttpResponseRedirect(back)
    return show(
        request,
        "pages/form.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (topic, back)),
        heading=gettext("New subscription"),
        intro=away
        or gettext("Clients create subscriptions when they subscribe. One that is created here keeps messages until they do."),
        form=form,
        submit=gettext("Create subscription"),
        cancel_url=back,
    )


def _places(move: RecordedMove) -> str:
    if len(move.before) != 1:
        return f"{len(move.before)} partitions" if move.undoable else gettext("not recorded")
    (position,) = move.before.values()
    return place_of(f"{position.ledger_id}:{position.entry_id}")


@page
def dead_letters(request: ConsoleRequest, tenant: str, namespace: str, topic: str, subscription: str) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    back = reverse("console:topic", args=[tenant, namespace, topic])
    held, away = _held(request, name, subscription)
    form = DeadLetterForm(request.POST or None, initial=_initial(held))
    if request.method == "POST" and form.is_valid():
        try:
            message = _save(request, name, subscription, form)
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            show_message(request, message)
            return HttpResponseRedirect(back)
    elif away is not None:
        add_error(request, form, away, begun=False) if form.is_bound else None
    return show(
        request,
        "pages/form.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (topic, back)),
        heading=gettext("Dead letters of {subscription}").format(subscription=subscription),
        form=form,
        intro=_intro(held, away),
        submit=gettext("Save"),
        cancel_url=back,
    )


def _held(
    request: ConsoleRequest, name: TopicName, subscription: str
) -> tuple[DeadLetterPolicyAnswer | None, MagnetarError | None]:
    """The policy, if there is one; or why the broker does not say. 404 if the subscription does not exist."""
    try:
        return dead_letter_policy(request.actor, name, subscription), None
    except (TopicNotFound, SubscriptionNotFound):
        raise Http404 from None
    except NotFound:
        return None, None
    except MagnetarError as error:
        return None, error


def _initial(held: DeadLetterPolicyAnswer | None) -> dict[str, object]:
    if held is None:
        return {}
    return {field: getattr(held, field) for field in ("max_redeliver_count", "target", "initial_subscription")}


def _intro(held: DeadLetterPolicyAnswer | None, away: MagnetarError | None) -> str:
    if away is not None:
        return gettext("The current policy is unknown. {away}").format(away=explain(away))
    text = gettext(
        "A message that consumers of a Shared or Key_Shared subscription reject more often than this is moved to another topic, "
        "with its key, its properties and where it came from. This works for every client."
    )
    if held is not None:
        text += gettext(" Moved so far: {moved_messages}. Waiting: {waiting_entries}.").format(
            moved_messages=exact(held.moved_messages), waiting_entries=exact(held.waiting_entries)
        )
        if held.last_error:
            text += gettext(" The last attempt failed: {last_error}.").format(last_error=held.last_error)
    return text


def _save(request: ConsoleRequest, name: TopicName, subscription: str, form: DeadLetterForm) -> str:
    given = form.cleaned_data
    if given["max_redeliver_count"] is None:
        remove_dead_letter_policy(request.actor, name, subscription)
        return gettext("Subscription {subscription} has no dead-letter policy now.").format(subscription=subscription)
    answer = set_dead_letter_policy(request.actor, name, subscription, **given)
    return gettext("Dead letters of {subscription} are moved to {target}.").format(subscription=subscription, target=answer.target)
