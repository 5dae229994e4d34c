"""The waiting helpers themselves: they return at once, retry on assertion errors, and fail with what they saw."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.waiting import eventually, eventually_sync


async def test_returns_the_first_true_value() -> None:
    values = iter([0, "", "there"])
    assert await eventually(lambda: next(values)) == "there"


async def test_awaits_a_coroutine_function_and_retries_its_assertions() -> None:
    calls = 0

    async def third_time() -> bool:
        nonlocal calls
        calls += 1
        assert calls == 3
        return True

    assert await eventually(third_time)


async def test_says_what_it_saw_when_it_gives_up() -> None:
    with pytest.raises(AssertionError, match=r"within [0-9.]+ s; last seen: not yet"):
        await eventually(_raising, timeout_s=0.01)


def _raising() -> bool:
    raise AssertionError("not yet") from None


def test_the_synchronous_twin_gives_up_too() -> None:
    with pytest.raises(AssertionError, match="last seen: 0"):
        eventually_sync(lambda: 0, timeout_s=0.01)


def test_an_error_that_is_no_assertion_is_not_waited_out() -> None:
    with pytest.raises(ZeroDivisionError):
        eventually_sync(lambda: 1 // 0)


def test_the_session_has_a_data_directory_of_its_own() -> None:
    assert Path(os.environ["MAGNETAR_DATA_DIR"]).name.startswith("magnetar-test-")
