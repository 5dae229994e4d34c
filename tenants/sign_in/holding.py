"""How long what a provider said of somebody holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from tenants.sign_in.providers import SignInProvider


class LoginRecord(Protocol):
    provider: str
    refresh_token: str
    refreshed_at: datetime
    ended_at: datetime | None


def holds_until(provider: SignInProvider, login: LoginRecord) -> datetime:
    """One who gave no refresh token cannot be asked again: they sign in anew, at the provider."""
    minutes = provider.refresh_min + (provider.grace_min if login.refresh_token else 0)
    return login.refreshed_at + timedelta(minutes=minutes)


def holding(providers: Mapping[str, SignInProvider], logins: Iterable[LoginRecord], now: datetime) -> list[SignInProvider]:
    """The providers that still vouch for somebody with these logins."""
    return [
        provider
        for login in logins
        if login.ended_at is None and (provider := providers.get(login.provider)) is not None and now < holds_until(provider, login)
    ]
