"""The audit log of sign-ins and of what people change about their own account: one record each, wherever allauth does it.

allauth announces what it did by signals. A request that comes from none of our routes (a test that signs somebody in) is no
sign-in."""

from __future__ import annotations

from typing import Any

from allauth.account import signals as account
from allauth.account.internal.flows.login import get_authentication_records
from allauth.mfa import signals as mfa
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest

from admin_ui.sign_in import factors
from admin_ui.sign_in.activity import forget_expired, keep_only, make_room
from admin_ui.sign_in.factors import factors_of
from messaging.permissions import audited
from tenants.access import Actor, actor_of_user
from tenants.actions.change import record
from tenants.actions.people import end_sessions
from tenants.http.authentication import client_address_of
from tenants.http.request_state import state_of
from tenants.models import User


def connect() -> None:
    """Once a process."""
    factors.connect()
    user_logged_in.connect(_signed_in, dispatch_uid="magnetar.sign-in")
    account.user_signed_up.connect(_signed_up, dispatch_uid="magnetar.sign-up")
    account.password_reset.connect(_reset, dispatch_uid="magnetar.reset")
    account.email_added.connect(_email, dispatch_uid="magnetar.email-added")
    account.email_removed.connect(_email, dispatch_uid="magnetar.email-removed")
    account.email_changed.connect(_email_changed, dispatch_uid="magnetar.email-changed")
    account.email_confirmed.connect(_verified, dispatch_uid="magnetar.verified")
    mfa.authenticator_added.connect(_factor("add"), weak=False, dispatch_uid="magnetar.factor-added")
    mfa.authenticator_removed.connect(_factor("remove"), weak=False, dispatch_uid="magnetar.factor-removed")
    mfa.authenticator_reset.connect(_factor("reset"), weak=False, dispatch_uid="magnetar.factor-reset")
    mfa.authentication_failed.connect(_factor_failed, dispatch_uid="magnetar.factor-failed")


def acting(request: HttpRequest, user: User) -> Actor:
    """The actor of the request, which is this person; made here where the page is a public one."""
    state = state_of(request)
    if state.actor is None or state.actor.principal.role != user.role:
        state.actor = actor_of_user(user, getattr(request, "request_id", ""), client_address_of(request))
    return state.actor


def note(request: HttpRequest, user: User, action: str, after: dict[str, Any] | None = None) -> None:
    record(acting(request, user), action, "", user.username, None, after)


def note_about(request: HttpRequest, action: str, resource: str, after: dict[str, Any] | None = None, tenant: str = "") -> None:
    """What the actor of the request did that no action of ours records."""
    actor = state_of(request).actor
    assert actor is not None, "the page has a row that asks who it is"
    record(actor, action, tenant, resource, None, after)


def _signed_in(request: HttpRequest | None, user: User, **_: Any) -> None:
    if request is None or request.resolver_match is None:
        return
    make_room(user)
    forget_expired()
    steps = [str(step.get("type") or step.get("provider") or step["method"]) for step in get_authentication_records(request, user)]
    note(request, user, audited.SIGN_IN, {"by": ", ".join(steps)} if steps else None)


def _signed_up(request: HttpRequest, user: User, **_: Any) -> None:
    note(request, user, audited.SIGN_UP, {"email": user.email})


def _reset(request: HttpRequest, user: User, **_: Any) -> None:
    note(request, user, audited.RESET_PASSWORD)


def _email(request: HttpRequest, user: User, email_address: Any, signal: Any, **_: Any) -> None:
    what = "added" if signal is account.email_added else "removed"
    note(request, user, audited.EMAIL, {what: email_address.email})


def _email_changed(request: HttpRequest, user: User, to_email_address: Any, **_: Any) -> None:
    note(request, user, audited.EMAIL, {"primary": to_email_address.email if to_email_address else ""})


def _verified(request: HttpRequest, email_address: Any, **_: Any) -> None:
    user = email_address.user
    if user.must_verify_email:
        user.must_verify_email = False
        user.save(update_fields=["must_verify_email"])
    note(request, user, audited.EMAIL_VERIFIED, {"email": email_address.email})


def _factor(change: str) -> Any:
    def changed(request: HttpRequest, user: User, authenticator: Any, **_: Any) -> None:
        note(request, user, f"{audited.SECOND_FACTOR}.{change}", {"type": str(authenticator.type)})
        if change == "add" and list(factors_of(user.pk).values_list("pk", flat=True)) == [authenticator.pk]:
            # What began with a password alone, perhaps a stolen one, is not made better by it.
            keep_only(request, end_sessions(acting(request, user), user.username))

    return changed


def _factor_failed(request: HttpRequest, user: User, **_: Any) -> None:
    acting(request, user)  # whom the record of the failure names
