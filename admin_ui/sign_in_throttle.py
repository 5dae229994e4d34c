"""Slows down guessing of passwords: counts attempts in Django's cache, in windows of fixed length, by three things:

- name and address: somebody who mistyped, or guesses one password after the other;
- name alone: guesses from many addresses. A browser that this person signed in with before is not bound by this, so that nobody is
  locked out of an account by others who guess at it;
- address alone: many names from one place. Successes do not count, nor do browsers that the person used before, so that an office
  behind one address goes on working.

An attempt is counted before the password is looked at, so that many at once cannot slip past; a success takes it back. One that is
refused is no attempt at what comes after it in the order address, both, name: an address that has had its guesses neither locks a
name out for everybody nor fills the cache with names. Names that exist and names that do not are counted alike.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import NamedTuple

from django.core.cache import cache

from messaging.client_address import place_of

WINDOW_S = 300
ATTEMPTS_A_NAME_AND_ADDRESS = 5  # also: of one known browser
ATTEMPTS_A_NAME = 50  # from all addresses together
ATTEMPTS_AN_ADDRESS = 30


class _Limit(NamedTuple):
    key: str
    attempts_max: int
    forgotten: bool = False  # by a success: else it only takes its own attempt back


def _limits(username: str, address: str, device: str) -> list[_Limit]:
    name, address = username.casefold(), place_of(address)
    if device:
        return [_Limit(_key("device", name, device), ATTEMPTS_A_NAME_AND_ADDRESS, forgotten=True)]
    return [
        _Limit(_key("address", address), ATTEMPTS_AN_ADDRESS),
        _Limit(_key("both", name, address), ATTEMPTS_A_NAME_AND_ADDRESS, forgotten=True),
        _Limit(_key("name", name), ATTEMPTS_A_NAME),
    ]


def _key(*parts: str) -> str:
    return "sign-in:" + hashlib.sha256("\0".join(parts).encode()).hexdigest()


def count_attempt(key: str) -> int:
    cache.add(key, 0, WINDOW_S)
    try:
        return cache.incr(key)
    except ValueError:  # the window ended between the two lines
        cache.add(key, 1, WINDOW_S)
        return 1


def too_many(username: str, address: str, device: str) -> bool:
    """Counts one attempt and says whether it is beyond a limit. `device`: the browser's id if this person used it before, or ""."""
    return any(count_attempt(limit.key) > limit.attempts_max for limit in _limits(username, address, device))


def succeeded(username: str, address: str, device: str) -> None:
    """The attempt was the right one: it does not count, nor do those before it from the same place."""
    for limit in _limits(username, address, device):
        if limit.forgotten:
            cache.delete(limit.key)
            continue
        with suppress(ValueError):  # the window ended meanwhile
            cache.decr(limit.key)
