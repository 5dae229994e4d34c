"""Slows down guessing of passwords: counts attempts by name and by address in Django's cache, in windows of fixed length.

An attempt is counted before the password is looked at, so that many at once cannot slip past; a success forgets those of that name.
Names that exist and names that do not are counted alike.
"""

from __future__ import annotations

import hashlib

from django.core.cache import cache

WINDOW_S = 300
ATTEMPTS_A_NAME = 5  # of one name from one address
ATTEMPTS_AN_ADDRESS = 30


def _key(*parts: str) -> str:
    return "sign-in:" + hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _counted(key: str) -> int:
    cache.add(key, 0, WINDOW_S)
    try:
        return cache.incr(key)
    except ValueError:  # the window ended between the two lines
        cache.add(key, 1, WINDOW_S)
        return 1


def too_many(username: str, address: str) -> bool:
    """Counts one attempt and says whether it is beyond the limit."""
    by_name = _counted(_key(username.casefold(), address))
    by_address = _counted(_key(address))
    return by_name > ATTEMPTS_A_NAME or by_address > ATTEMPTS_AN_ADDRESS


def forget(username: str, address: str) -> None:
    cache.delete(_key(username.casefold(), address))
