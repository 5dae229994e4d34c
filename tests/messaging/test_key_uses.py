"""Key uses: exact to the minute, and none is lost between the one who gathers them and the one who writes them down."""

from __future__ import annotations

import pytest

from messaging import key_uses
from messaging.key_uses import MINUTE_MS, KeyUses

START_MS = 100 * MINUTE_MS


@pytest.fixture
def uses() -> KeyUses:
    return KeyUses(START_MS)


def test_a_use_is_the_minute_in_which_it_was(uses: KeyUses) -> None:
    uses.note("k", START_MS + 59_999)
    uses.note("l", START_MS + MINUTE_MS)
    assert uses.take().uses == {"k": START_MS, "l": START_MS + MINUTE_MS}


def test_connections_are_looked_at_once_a_minute(uses: KeyUses) -> None:
    looked: list[int] = []

    def connected() -> list[str]:
        looked.append(1)
        return ["k"]

    for second in range(130):
        uses.look(START_MS + second * 1000, connected)
    assert len(looked) == 3
    assert uses.take().uses == {"k": START_MS + 2 * MINUTE_MS}


def test_what_is_not_acknowledged_comes_again(uses: KeyUses) -> None:
    uses.note("k", START_MS)
    assert uses.take().uses == uses.take().uses == {"k": START_MS}
    taken = uses.take()
    uses.note("k", START_MS + MINUTE_MS)
    uses.note("l", START_MS)
    after = uses.take(taken.number)
    assert after.uses == {"k": START_MS + MINUTE_MS, "l": START_MS}, "used again meanwhile"
    assert uses.take(taken.number).uses == after.uses, "an old number acknowledges nothing"
    assert KeyUses(START_MS + 1).take(1).uses == {}


def test_a_batch_is_bounded(uses: KeyUses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_uses, "BATCH_MAX", 2)
    for key_id in "abc":
        uses.note(key_id, START_MS)
    first = uses.take()
    assert (list(first.uses), first.waiting) == (["a", "b"], 1)
    second = uses.take(first.number)
    assert (list(second.uses), second.waiting) == (["c"], 0)
    assert uses.take(second.number) == (second.number + 1, {}, 0)
