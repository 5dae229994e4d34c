"""Moving and deleting a subscription: each page says what it would do, then does it once that is confirmed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from django import forms
from django.http import Http404, HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone

from admin_ui.access import ConsoleRequest, page
from admin_ui.form_pages import confirm_page, refused
from admin_ui.moves.forms import SPAN, ExpireForm, ResetForm, SkipForm, yesterday
from admin_ui.moves.texts import counted, effect_of, effect_of_deletion, effect_of_undo
from admin_ui.pages import add_error, crumbs, navigation, show
from admin_ui.time_zones import of_address
from admin_ui.translation.texts import gettext
from admin_ui.views.topics import topic_name
from messaging.adminrpc.subscriptions import SubscriptionMoved
from messaging.errors import MagnetarError, NotFound, SubscriptionNotFound, TopicNotFound
from messaging.protocol.names import TopicName
from messaging.times import time_text
from tenants.actions import cursor_moves

_SEEN, _UP_TO = "seen", "up_to"  # of what was shown: the newest move then, and where this one would end
_ABSENT = (TopicNotFound, SubscriptionNotFound)


def _undo() -> str:
    return gettext("It can be undone for {hours} hours, on the page of the subscription.").format(hours=cursor_moves.UNDO_H)


class Place(NamedTuple):
    """A subscription, as an address names it."""

    tenant: str
    namespace: str
    topic: str
    subscription: str

    @property
    def name(self) -> TopicName:
        return topic_name(self.tenant, self.namespace, self.topic)

    @property
    def page(self) -> str:
        return reverse("console:subscription", args=list(self))

    @property
    def above(self) -> list[tuple[str, str]]:
        above = reverse("console:topic", args=[self.tenant, self.namespace, self.topic])
        return crumbs(self.tenant, self.namespace, (self.topic, above), (self.subscription, self.page))


class Move(NamedTuple):
    """`act` takes whether it is a dry run. `named`: the name is typed to confirm it."""

    heading: str
    submit: str
    act: Callable[[bool], SubscriptionMoved]
    done: Callable[[SubscriptionMoved], str]
    effect: Callable[[SubscriptionMoved], list[str]]
    notes: list[str]
    named: bool = False


@page
def subscription_skip(request: ConsoleRequest, tenant: str, namespace: str, topic: str, subscription: str) -> HttpResponse:
    place, form = Place(tenant, namespace, topic, subscription), SkipForm(request.POST or None)

    def skip(dry_run: bool) -> SubscriptionMoved:
        up_to = "" if dry_run else request.POST.get(_UP_TO, "")
        return cursor_moves.skip(request.actor, place.name, subscription, form.cleaned_data["entries"], up_to, dry_run=dry_run)

    move = Move(
        gettext("Skip messages of {subscription}").format(subscription=subscription),
        gettext("Skip"),
        skip,
        lambda answer: gettext("{entries} skipped. {undo}").format(entries=counted(answer.skipped_entries, "entry"), undo=_undo()),
        lambda answer: effect_of(answer, resets=False),
        [_undo()],
    )
    return _two_steps(request, place, form, move, gettext("The oldest messages that are not acknowledged are skipped."))


@page
def subscription_expire(request: ConsoleRequest, tenant: str, namespace: str, topic: str, subscription: str) -> HttpResponse:
    place, form = Place(tenant, namespace, topic, subscription), ExpireForm(request.POST or None)
    move = Move(
        gettext("Expire messages of {subscription}").format(subscription=subscription),
        gettext("Expire"),
        lambda dry_run: cursor_moves.expire(request.actor, place.name, subscription, form.older_than_s, dry_run=dry_run),
        lambda answer: gettext("{entries} expired. {undo}").format(entries=counted(answer.skipped_entries, "entry"), undo=_undo()),
        lambda answer: effect_of(answer, resets=False),
        [_undo()],
    )
    return _two_steps(
        request, place, form, move, gettext("What the broker stored longer ago is skipped, as if it had been acknowledged.")
    )


@page
def subscription_reset(request: ConsoleRequest, tenant: str, namespace: str, topic: str, subscription: str) -> HttpResponse:
    given = request.POST or _given_of_chart(request.GET)
    replays = request.GET.get("to") == SPAN
    initial = yesterday(timezone.localtime()) if replays else None
    place, form = Place(tenant, namespace, topic, subscription), ResetForm(given, initial=initial)

    def act(dry_run: bool) -> SubscriptionMoved:
        if not form.position and form.until_ms is not None:
            return cursor_moves.replay(request.actor, place.name, subscription, form.timestamp_ms, form.until_ms, dry_run=dry_run)
        if not form.position:
            return cursor_moves.reset_to_time(request.actor, place.name, subscription, form.timestamp_ms, dry_run=dry_run)
        return cursor_moves.reset_to(request.actor, place.name, subscription, form.position, dry_run=dry_run)

    move = Move(
        (gettext("Replay to {subscription}") if replays else gettext("Reset {subscription}")).format(subscription=subscription),
        gettext("Replay") if replays else gettext("Reset"),
        act,
        lambda answer: gettext("Subscription {subscription} was reset. {undo}").format(subscription=subscription, undo=_undo()),
        lambda answer: [form.no_message if answer.no_message else form.target, *effect_of(answer, resets=True)],
        [_undo()],
    )
    intro = (
        gettext("What was published in a span of time comes again, and all else stays as it is.")
        if replays
        else gettext(
            "It continues at another message: what is before that counts as acknowledged, what is behind it comes, also again."
        )
    )
    return _two_steps(request, place, form, move, intro)


def _given_of_chart(query: QueryDict) -> dict[str, str] | None:
    """A chart gives a time, or ms since 1970, in the address: what that would do is shown at once."""
    given = {name: of_address(str(value)) for name, value in query.items() if name in ("time", "until")}
    at_ms = query.get("time_ms", "")
    if at_ms.isdecimal() and len(at_ms) < 15:
        given["time"] = of_address(time_text(int(at_ms))[:19])
    return {"to": "time", **given} if "time" in given else None


@page
def subscription_clear(request: ConsoleRequest, tenant: str, namespace: str, topic: str, subscription: str) -> HttpResponse:
    place = Place(tenant, namespace, topic, subscription)
    move = Move(
        gettext("Clear the backlog of {subscription}").format(subscription=subscription),
        gettext("Clear backlog"),
        lambda dry_run: cursor_moves.clear_backlog(request.actor, place.name, subscription, dry_run=dry_run),
        lambda answer: gettext("{entries} skipped. {undo}").format(entries=counted(answer.skipped_entries, "entry"), undo=_undo()),
        lambda answer: effect_of(answer, resets=False),
        [_undo()],
        named=True,
    )
    return _one_step(request, place, move)


@page
def subscription_delete(request: ConsoleRequest, tenant: str, namespace: str, topic: str, subscription: str) -> HttpResponse:
    place = Place(tenant, namespace, topic, subscription)
    kept = gettext("For {UNDO_H} hours it can be created again where it stood, without properties and dead-letter policy.").format(
        UNDO_H=cursor_moves.UNDO_H
    )
    move = Move(
        gettext("Delete subscription {subscription}").format(subscription=subscription),
        gettext("Delete subscription"),
        lambda dry_run: cursor_moves.delete_subscription(request.actor, place.name, subscription, dry_run=dry_run),
        lambda answer: gettext("Subscription {subscription} was deleted.").format(subscription=subscription),
        effect_of_deletion,
        [kept],
        named=True,
    )
    return _one_step(request, place, move)


@page
def subscription_undo(
    request: ConsoleRequest, tenant: str, namespace: str, topic: str, subscription: str, record: int
) -> HttpResponse:
    place = Place(tenant, namespace, topic, subscription)
    try:
        recorded = cursor_moves.recorded_move(request.actor, place.name, subscription, record, datetime.now(UTC))
    except NotFound:
        raise Http404 from None
    move = Move(
        gettext("Undo a move of {subscription}").format(subscription=subscription),
        gettext("Move back"),
        lambda dry_run: cursor_moves.undo(request.actor, place.name, subscription, record, datetime.now(UTC), dry_run=dry_run),
        lambda answer: gettext("Subscription {subscription} stands where it stood before.").format(subscription=subscription),
        lambda answer: effect_of_undo(answer, recorded),
        [],
    )
    return _one_step(request, place, move)


def _two_steps(request: ConsoleRequest, place: Place, form: forms.Form, move: Move, intro: str) -> HttpResponse:
    """A form that says how far; then what that does, to be confirmed."""
    if form.is_bound and form.is_valid():
        try:
            answer = move.act(True)
        except _ABSENT:
            raise Http404 from None
        except MagnetarError as error:
            add_error(request, form, error, begun=False)
        else:
            given = {name: str(form.data.get(name, "")) for name in form.fields} | _end_of(answer)
            return _confirm(request, place, move, answer, given, cancel=request.path)
    return show(
        request,
        "pages/form.html",
        navigation(request, "topic", place.tenant, place.namespace),
        crumbs=place.above,
        heading=move.heading,
        form=form,
        intro=intro,
        submit=gettext("Preview"),
        cancel_url=place.page,
    )


def _one_step(request: ConsoleRequest, place: Place, move: Move) -> HttpResponse:
    try:
        answer = move.act(True)
    except NotFound:
        raise Http404 from None
    except MagnetarError as error:
        return refused(request, error, place.page)
    return _confirm(request, place, move, answer, {})


def _confirm(
    request: ConsoleRequest, place: Place, move: Move, told: SubscriptionMoved, given: dict[str, str], cancel: str = ""
) -> HttpResponse:
    """One that was moved since it was shown is shown again as it stands now, and not moved."""
    outcome = [told]
    newest = cursor_moves.newest_move(request.actor, place.name, place.subscription, datetime.now(UTC))

    def act() -> None:
        cursor_moves.check_not_moved(request.POST.get(_SEEN, newest), newest)
        outcome.append(move.act(False))

    return confirm_page(
        request,
        navigation(request, "topic", place.tenant, place.namespace),
        act,
        crumbs=place.above,
        heading=move.heading,
        impact=[*move.effect(told), *move.notes],
        name=place.subscription if move.named else "",
        submit=move.submit,
        done=lambda: move.done(outcome[-1]),
        back=place.page,
        cancel=cancel,
        given={**given, _SEEN: newest},
    )


def _end_of(answer: SubscriptionMoved) -> dict[str, str]:
    """Where a move of one topic would end, if that is at a message."""
    ends = [after for _, after in answer.moved.values()]
    return {_UP_TO: ends[0]} if len(ends) == 1 and "-" not in ends[0] else {}
