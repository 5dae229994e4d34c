"""Sessions that began with a sign-in provider: each request looks whether what it said still holds."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.utils import timezone

from tenants.models import ProviderLogin, User
from tenants.sign_in.holding import holding
from tenants.sign_in.providers import providers_of


class ProviderBackend(ModelBackend):
    """Lets nobody in by itself: django-allauth does. Sessions name it, so that Django asks it who is signed in."""

    def authenticate(self, request: Any, username: str | None = None, password: str | None = None, **more: Any) -> None:
        return None

    def get_user(self, user_id: int) -> User | None:
        user = super().get_user(user_id)
        if not isinstance(user, User):
            return None
        vouching = holding(providers_of(settings.MAGNETAR), ProviderLogin.objects.filter(user=user), timezone.now())
        if not vouching:
            return None
        user.provider_asks_second_factor = any(provider.second_factor for provider in vouching)
        return user


PATH = f"{ProviderBackend.__module__}.{ProviderBackend.__qualname__}"
