"""Users of the console. A generated password appears in one response and is stored only as a hash."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone

from admin_ui.access import ConsoleRequest, page
from admin_ui.form_pages import carried_out, confirm_page
from admin_ui.forms import NO_ADMINISTRATOR, AdministratorForm, ConfirmForm, PersonForm
from admin_ui.pages import add_error, navigation, show, show_error, show_message
from admin_ui.row_list import Column, list_rows, newest_first
from admin_ui.sign_in import factors, links, trail
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.errors import MagnetarError
from tenants.access import Actor
from tenants.actions.people import (
    create_person,
    end_sessions,
    new_password,
    require_may_sign_in_as,
    set_active,
    set_administrator,
    set_password,
)
from tenants.models import Membership, User
from tenants.scoping import platform_scope

TENANTS_SHOWN = 50  # on the page of one person

PERSON_COLUMNS = (
    Column("active", order=("-is_active", "username")),
    Column("name", gettext_lazy("Person"), ("username",)),
    Column("state", gettext_lazy("State")),
    Column("tenants", gettext_lazy("Tenants")),
    Column("last_login", gettext_lazy("Last sign-in"), newest_first("last_login"), down=True),
    Column("added", gettext_lazy("Added"), ("date_joined",), down=True),
)


@page
def people(request: ConsoleRequest) -> HttpResponse:
    listed = list_rows(request.GET, User.objects.all(), PERSON_COLUMNS, searched=("username", "email"))
    tenants: dict[int, list[str]] = {}
    with platform_scope():
        shown = Membership.objects.filter(user__in=[user.pk for user in listed.rows])
        for user_id, tenant, role in shown.values_list("user_id", "tenant_id", "role"):
            tenants.setdefault(user_id, []).append(f"{tenant} ({role})")
    found = [
        {
            "username": user.username,
            "superuser": user.administers,
            "until": user.superuser_until,
            "active": user.is_active,
            "tenants": tenants.get(user.pk, []),
            "email": user.email,
            "waits": user.must_verify_email,
            "last_login": user.last_login,
            "created_at": user.date_joined,
        }
        for user in listed.rows
    ]
    return show(request, "pages/people.html", navigation(request, "people"), people=found, listed=listed)


@page
def person(request: ConsoleRequest, person: str) -> HttpResponse:
    """Somebody, and what can be done about them."""
    user = _found(person)
    with platform_scope():
        rows = Membership.objects.filter(user=user).order_by("tenant_id").values_list("tenant_id", "role")
        roles = list(rows[: TENANTS_SHOWN + 1])
    return show(
        request,
        "pages/person.html",
        navigation(request, "people"),
        crumbs=_above(),
        person=user,
        memberships=roles[:TENANTS_SHOWN],
        more=len(roles) > TENANTS_SHOWN,
    )


@page
def person_create(request: ConsoleRequest) -> HttpResponse:
    form = PersonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        password = new_password()
        try:
            user = create_person(request.actor, form.cleaned_data["username"], password, superuser=form.cleaned_data["superuser"])
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            return _shown_once(request, user, password)
    return show(
        request,
        "pages/form.html",
        navigation(request, "people"),
        crumbs=_above(),
        heading=gettext("New person"),
        intro=gettext(
            "A password is generated and shown once. The person can see a tenant only after being added to it as a member."
        ),
        form=form,
        submit=gettext("Add person"),
        cancel_url=reverse("console:people"),
    )


@page
def person_password(request: ConsoleRequest, person: str) -> HttpResponse:
    user = _found(person)
    impact = [
        gettext("A new password is generated and shown once."),
        gettext("The old password and all sessions of this person end immediately."),
    ]
    form = ConfirmForm(request.POST or None, expected=user.username)
    if request.method == "POST" and form.is_valid():
        password = new_password()
        try:
            set_password(request.actor, user.username, password)
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            return _shown_once(request, user, password)
    return show(
        request,
        "pages/confirm.html",
        navigation(request, "people"),
        crumbs=_above(user),
        heading=gettext("New password for {username}").format(username=user.username),
        impact=impact,
        name=user.username,
        form=form,
        submit=gettext("Create new password"),
        cancel_url=_page_of(user),
    )


class _Change(NamedTuple):
    """One that is asked for by name: what pages say of it, each with {username}, and what it does."""

    heading: str
    impact: tuple[str, ...]
    submit: str
    done: str
    act: Callable[[Actor, str], object]


_DEACTIVATE = _Change(
    gettext_lazy("Deactivate {username}"),
    (
        gettext_lazy(
            "They are signed out and can no longer sign in. Their entries in the audit log remain, and keys of their "
            "tenants stay valid."
        ),
    ),
    gettext_lazy("Deactivate"),
    gettext_lazy("{username} can no longer sign in."),
    lambda actor, username: set_active(actor, username, False),
)
_ACTIVATE = _Change(
    gettext_lazy("Activate {username}"),
    (gettext_lazy("They can sign in again with their password and have the same permissions as before."),),
    gettext_lazy("Activate"),
    gettext_lazy("{username} can sign in again."),
    lambda actor, username: set_active(actor, username, True),
)
_SIGN_OUT = _Change(
    gettext_lazy("Sign out {username} everywhere"),
    (gettext_lazy("All sessions of this person end immediately, in every browser. They can sign in again."),),
    gettext_lazy("Sign out everywhere"),
    gettext_lazy("{username} was signed out everywhere."),
    end_sessions,
)
_REMOVE_FACTORS = _Change(
    gettext_lazy("Remove the second factors of {username}"),
    (
        gettext_lazy(
            "All passkeys, security keys, apps and recovery codes of this person stop working, and they are signed out everywhere."
        ),
        gettext_lazy("Until they set up a new one, their password is enough. Be sure that it is them who asks."),
    ),
    gettext_lazy("Remove second factors"),
    gettext_lazy("{username} signs in with the password alone until they set up a second factor again."),
    factors.remove_factors,
)


@page
def person_active(request: ConsoleRequest, person: str) -> HttpResponse:
    """Deactivates an active user, or activates a deactivated one."""
    user = _found(person)
    return _asked(request, user, _DEACTIVATE if user.is_active else _ACTIVATE)


@page
def person_sessions(request: ConsoleRequest, person: str) -> HttpResponse:
    """Signs somebody out everywhere."""
    return _asked(request, _found(person), _SIGN_OUT)


@page
def person_factors(request: ConsoleRequest, person: str) -> HttpResponse:
    """For somebody who lost their second factors."""
    return _asked(request, _found(person), _REMOVE_FACTORS)


def _asked(request: ConsoleRequest, user: User, change: _Change) -> HttpResponse:
    return confirm_page(
        request,
        navigation(request, "people"),
        lambda: change.act(request.actor, user.username),
        crumbs=_above(user),
        heading=change.heading.format(username=user.username),
        impact=[str(text) for text in change.impact],
        name=user.username,
        submit=str(change.submit),
        done=change.done.format(username=user.username),
        back=_page_of(user),
    )


@page
def person_administrator(request: ConsoleRequest, person: str) -> HttpResponse:
    """Makes somebody an administrator of the platform, for good or for a time, or an ordinary person."""
    user = _found(person)
    form = AdministratorForm(request.POST or None, initial={"days": NO_ADMINISTRATOR if user.administers else "7"})
    if carried_out(request, form, lambda: _set_administrator(request, user, form.cleaned_data["days"])):
        show_message(request, gettext("{username} is changed, from now on.").format(username=user.username))
        return HttpResponseRedirect(_page_of(user))
    return show(
        request,
        "pages/form.html",
        navigation(request, "people"),
        crumbs=_above(user),
        heading=gettext("Platform administrator: {username}").format(username=user.username),
        intro=gettext("They may manage all tenants, people and settings. What ends by itself ends to the second."),
        form=form,
        submit=gettext("Set"),
        cancel_url=_page_of(user),
    )


def _set_administrator(request: ConsoleRequest, user: User, days: str) -> None:
    superuser = days != NO_ADMINISTRATOR
    until = timezone.now() + timedelta(days=int(days)) if superuser and int(days) else None
    set_administrator(request.actor, user.username, superuser, until)


@page
def person_link(request: ConsoleRequest, person: str) -> HttpResponse:
    """A link for somebody who gets no mail from us, shown to be copied: to choose a password, or to confirm their address."""
    user = _found(person)
    kind = request.POST.get("kind", "")
    if kind != "email":
        try:
            require_may_sign_in_as(request.actor, user)
        except MagnetarError as error:
            show_error(request, error)
            return HttpResponseRedirect(_page_of(user))
    link = links.verification(request, user) if kind == "email" else links.password_reset(request, user)
    if not link:
        why = (
            gettext("{username} has no address that waits to be confirmed.")
            if kind == "email"
            else gettext("{username} has no password: they sign in with a provider.")
        )
        show_error(request, why.format(username=user.username))
        return HttpResponseRedirect(_page_of(user))
    trail.note_about(request, "person.link", user.username, {"kind": "email" if kind == "email" else "password"})
    heading = gettext("Confirm the address of {username}") if kind == "email" else gettext("New password for {username}")
    return show(
        request,
        "pages/person_link.html",
        navigation(request, "people"),
        crumbs=_above(user),
        heading=heading.format(username=user.username),
        username=user.username,
        link=link,
        hours=links.LIFETIME_H,
    )


def _found(username: str) -> User:
    user = User.objects.filter(username=username).first()
    if user is None:
        raise Http404
    return user


def _page_of(user: User) -> str:
    return reverse("console:person", args=[user.username])


def _above(user: User | None = None) -> list[tuple[str, str]]:
    people = [(gettext("People"), reverse("console:people"))]
    return people if user is None else [*people, (user.username, _page_of(user))]


def _shown_once(request: ConsoleRequest, user: User, password: str) -> HttpResponse:
    nav = navigation(request, "people")
    return show(request, "pages/person_password.html", nav, crumbs=_above(user), username=user.username, password=password)
