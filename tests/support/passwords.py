"""Passwords of people in tests: hashing takes 40 ms on purpose, so that each is hashed once for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

from django.contrib.auth.hashers import make_password


@cache
def hashed_once(password: str) -> str:
    return make_password(password)


@contextmanager
def passwords_hashed_once() -> Iterator[None]:
    """For whoever is made meanwhile by `User.objects`."""
    with patch("django.contrib.auth.models.make_password", hashed_once):
        yield
