"""The one settings object of this process. Whoever starts a process says which; else it is loaded from the environment, once."""

from __future__ import annotations

from messaging.settings import Settings, load

_current: Settings | None = None


def use(settings: Settings) -> None:
    """Makes `settings` those of this process. Must come before Django is set up."""
    global _current
    _current = settings


def settings() -> Settings:
    global _current
    if _current is None:
        _current = load()
    return _current
