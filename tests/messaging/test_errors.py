"""The catalogue of errors: each has its own code, belongs to one group, and survives the admin RPC."""

from __future__ import annotations

import pytest

from messaging import errors
from messaging.errors import MagnetarError, PlatformError, RequestError, StateError, from_code

GROUPS = (RequestError, StateError, PlatformError)
CATALOGUE: list[type[MagnetarError]] = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, MagnetarError) and value not in (MagnetarError, *GROUPS)
]


def test_no_two_errors_have_one_code() -> None:
    codes = [MagnetarError.code] + [error.code for error in CATALOGUE]
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize("error", CATALOGUE, ids=lambda error: error.__name__)
def test_each_says_who_is_at_fault_and_is_drawn_in_the_tree(error: type[MagnetarError]) -> None:
    assert [group for group in GROUPS if issubclass(error, group)] == [error.__mro__[error.__mro__.index(MagnetarError) - 1]]
    assert errors.__doc__ is not None and error.__name__ in errors.__doc__


@pytest.mark.parametrize("error", [MagnetarError, *CATALOGUE], ids=lambda error: error.__name__)
def test_a_code_becomes_its_error_again(error: type[MagnetarError]) -> None:
    assert type(from_code(error.code, "why")) is error
    assert type(from_code("of a newer release", "why")) is MagnetarError


def test_only_the_platforms_faults_are_answered_as_such() -> None:
    assert {error.http_status >= 500 for error in CATALOGUE if issubclass(error, PlatformError)} == {True}
    assert {error.http_status >= 500 for error in CATALOGUE if not issubclass(error, PlatformError)} == {False}
