"""Asks sign-in providers whether the people whom they let in still may: whom a provider removed loses access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils import timezone

from tenants.models import ProviderLogin
from tenants.sign_in.providers import providers_of
from workers.environment import Environment

LOGINS_A_RUN = 500
RETRY_S = 60  # a provider that is not responding is not asked for anybody before that


def refresh_provider_logins(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Those that are due, the longest waiting first. A provider that does not answer is left alone for this run: what it said
    last holds for its `grace_min`."""
    providers = providers_of(environment.settings)
    counts = {"refreshed": 0, "removed": 0, "not_reached": 0}
    if not providers:
        return counts
    from tenants.actions.provider_logins import not_reached, refreshed, removed
    from tenants.sign_in.oidc_client import ProviderUnreachable, UnknownPerson, refresh
    from tenants.sign_in.secrecy import decrypt

    due = ProviderLogin.objects.select_related("user").filter(due_at__lte=timezone.now(), ended_at=None, provider__in=providers)
    silent: dict[str, str] = {}
    for login in due.order_by("due_at")[:LOGINS_A_RUN]:
        renew()
        provider = providers[login.provider]
        if login.provider in silent:
            not_reached(login, silent[login.provider], RETRY_S)
            counts["not_reached"] += 1
            continue
        try:
            claims, refresh_token = refresh(provider, login.subject, decrypt(login.refresh_token))
        except UnknownPerson as error:
            removed(provider, login, str(error))
            counts["removed"] += 1
        except ProviderUnreachable as error:
            silent[login.provider] = str(error)
            not_reached(login, str(error), RETRY_S)
            counts["not_reached"] += 1
        else:
            refreshed(provider, login, claims, refresh_token)
            counts["refreshed"] += 1
    return counts
