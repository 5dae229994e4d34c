"""Subscriptions: the dead-letter policy of one."""

from __future__ import annotations

from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.forms import DeadLetterForm
from admin_ui.pages import crumbs, explain, navigation, show, show_message
from admin_ui.views.topics import topic_name
from messaging.adminrpc.subscriptions import DeadLetterPolicyAnswer
from messaging.errors import MagnetarError, NotFound, SubscriptionNotFound, TopicNotFound
from messaging.protocol.names import TopicName
from tenants.actions.subscriptions import dead_letter_policy, remove_dead_letter_policy, set_dead_letter_policy


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
            form.add_error(None, explain(error))
        else:
            show_message(request, message)
            return HttpResponseRedirect(back)
    elif away is not None:
        form.add_error(None, explain(away)) if form.is_bound else None
    return show(
        request,
        "pages/form.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (topic, back)),
        heading=f"Dead letters of {subscription}",
        form=form,
        intro=_intro(held, away),
        submit="Save",
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
        return f"The current policy is unknown. {explain(away)}"
    text = (
        "A message that consumers of a Shared or Key_Shared subscription reject more often than this is moved to another topic, "
        "with its key, its properties and where it came from. This works for every client."
    )
    if held is not None:
        text += f" Moved so far: {held.moved_messages}. Waiting: {held.waiting_entries}."
        if held.last_error:
            text += f" The last attempt failed: {held.last_error}."
    return text


def _save(request: ConsoleRequest, name: TopicName, subscription: str, form: DeadLetterForm) -> str:
    given = form.cleaned_data
    if given["max_redeliver_count"] is None:
        remove_dead_letter_policy(request.actor, name, subscription)
        return f"Subscription {subscription} has no dead-letter policy now."
    answer = set_dead_letter_policy(request.actor, name, subscription, **given)
    return f"Dead letters of {subscription} are moved to {answer.target}."
