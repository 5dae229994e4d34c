"""What follows from what a sign-in provider says of somebody: memberships that it gives, changes and takes away; the end of access.

A membership that people of the tenant gave stays as it is: a provider changes only what it has given itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from django.utils import timezone

from messaging import logs
from messaging.errors import MagnetarError
from tenants.access import Actor, platform_actor
from tenants.actions.change import change
from tenants.actions.members import remove_member, set_member
from tenants.models import Membership, ProviderLogin, User
from tenants.sign_in import secrecy
from tenants.sign_in.providers import SignInProvider

_log = logs.get_logger("sign-in")


def signed_in(provider: SignInProvider, subject: str, user: User, claims: Mapping[str, Any], refresh_token: str) -> ProviderLogin:
    """The provider has just shown who it is. Also ends that somebody was removed there."""
    now = timezone.now()
    login, _ = ProviderLogin.objects.get_or_create(
        provider=provider.id, subject=subject, defaults={"user": user, "refreshed_at": now}
    )
    login.user, login.ended_at = user, None
    return _said(provider, login, claims, refresh_token)


def refreshed(provider: SignInProvider, login: ProviderLogin, claims: Mapping[str, Any], refresh_token: str) -> ProviderLogin:
    """`refresh_token` "": the former one stays."""
    return _said(provider, login, claims, refresh_token or secrecy.decrypt(login.refresh_token))


def not_reached(login: ProviderLogin, why: str, retry_s: int) -> None:
    """What it said last holds for as long as `tenants.sign_in.holding` says."""
    login.failures += 1
    login.why, login.due_at = why[:200], timezone.now() + timedelta(seconds=retry_s)
    login.save(update_fields=["failures", "why", "due_at"])


def removed(provider: SignInProvider, login: ProviderLogin, why: str) -> None:
    """The provider no longer knows them: they are signed out everywhere, and the memberships that it gave end."""
    actor = _actor(provider)
    with change(actor) as changing:
        login.ended_at, login.due_at, login.refresh_token, login.why = timezone.now(), None, "", why[:200]
        login.save()
        user = login.user
        user.session_epoch += 1
        user.save(update_fields=["session_epoch"])
        changing.audit("person.removed_by_provider", "", user.username, None, {"provider": provider.id, "why": login.why})
    _give(provider, login, {})


def _said(provider: SignInProvider, login: ProviderLogin, claims: Mapping[str, Any], refresh_token: str) -> ProviderLogin:
    now = timezone.now()
    login.refresh_token = secrecy.encrypt(refresh_token) if refresh_token else ""
    login.refreshed_at, login.failures, login.why = now, 0, ""
    login.due_at = now + timedelta(minutes=provider.refresh_min) if refresh_token else None
    login.save()
    _give(provider, login, provider.roles_of(claims))
    return login


def _give(provider: SignInProvider, login: ProviderLogin, wanted: Mapping[str, str]) -> None:
    """Makes the memberships that come from the provider what it says. One that cannot be given, such as of a tenant that does not
    exist, is logged and tried again with the next refresh; so is one that cannot end, such as that of a last owner."""
    actor, user = _actor(provider), login.user
    roles = dict(Membership.unscoped.filter(user=user).values_list("tenant_id", "role"))
    given = {tenant: role for tenant, role in login.given.items() if tenant in roles}
    for tenant, role in wanted.items():
        if tenant in roles and tenant not in given:
            continue  # somebody of the tenant has given it
        if roles.get(tenant) == role or _done(login, tenant, partial(set_member, actor, tenant, user.username, role)):
            given[tenant] = role
    for tenant in [tenant for tenant in given if tenant not in wanted]:
        if _done(login, tenant, partial(remove_member, actor, tenant, user.username)):
            del given[tenant]
    if given != login.given:
        login.given = given
        login.save(update_fields=["given"])


def _done(login: ProviderLogin, tenant: str, act: Callable[[], object]) -> bool:
    try:
        act()
    except MagnetarError as error:
        _log.warning(
            "membership-not-changed", provider=login.provider, user=login.user.username, tenant=tenant, why=str(error)[:300]
        )
        return False
    return True


def _actor(provider: SignInProvider) -> Actor:
    return platform_actor(f"service:provider-{provider.id}")
