"""REST rows of the permission table: (HTTP method, route name of Django's URL configuration) -> action."""

from __future__ import annotations

from messaging.permissions.model import Action

REST: dict[tuple[str, str], Action] = {}
