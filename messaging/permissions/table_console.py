"""Console rows of the permission table: (HTTP method or "WEBSOCKET", route name) -> action."""

from __future__ import annotations

from messaging.permissions.model import Action

CONSOLE: dict[tuple[str, str], Action] = {}
