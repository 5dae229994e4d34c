"""Django's cache in a Redis or Valkey server, so that several web processes count attempts together.

While the server is not responding, each process counts by itself: people can still sign in, and guesses are still bound."""

from __future__ import annotations

import time
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache

from messaging import logs

RETRY_S = 5  # a server that did not respond is not asked again before that
TIMEOUT_S = 1
ENTRIES_MAX = 20_000
_log = logs.get_logger("web")


class SharedCache(RedisCache):
    def __init__(self, server: str, params: dict[str, Any]) -> None:
        options = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S}
        url = server.replace("redis+socket://", "unix://", 1)  # as Celery spells it
        super().__init__(url, {"KEY_PREFIX": "magnetar", **params, "OPTIONS": options})
        self._alone = LocMemCache("shared-cache", {"OPTIONS": {"MAX_ENTRIES": ENTRIES_MAX}})
        self._asked_again_at = 0.0

    def _ask(self, name: str, *arguments: Any, **more: Any) -> Any:
        from redis.exceptions import RedisError

        if time.monotonic() >= self._asked_again_at:
            try:
                return getattr(RedisCache, name)(self, *arguments, **more)
            except (RedisError, OSError) as error:
                self._asked_again_at = time.monotonic() + RETRY_S
                _log.warning("cache-not-reached", why=type(error).__name__)
        return getattr(self._alone, name)(*arguments, **more)

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> Any:
        return self._ask("add", key, value, timeout, version)

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return self._ask("get", key, default, version)

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> Any:
        return self._ask("set", key, value, timeout, version)

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> Any:
        return self._ask("touch", key, timeout, version)

    def delete(self, key: Any, version: int | None = None) -> Any:
        return self._ask("delete", key, version)

    def incr(self, key: Any, delta: int = 1, version: int | None = None) -> Any:
        return self._ask("incr", key, delta, version)

    def has_key(self, key: Any, version: int | None = None) -> Any:
        return self._ask("has_key", key, version)

    def clear(self) -> Any:
        return self._ask("clear")
