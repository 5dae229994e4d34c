"""The defaults of policies that are in force: of the configuration, and of settings that were changed while brokers run."""

from __future__ import annotations

from typing import Any

from django.conf import settings as django_settings

from messaging.policies.dynamic import with_dynamic
from messaging.policies.resolution import defaults
from tenants.models import DynamicSetting


def policy_defaults() -> dict[str, Any]:
    """By the names of policies."""
    return with_dynamic(defaults(django_settings.MAGNETAR), dict(DynamicSetting.objects.values_list("name", "value")))
