"""State plus updates must equal fresh state, whatever happened in between."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_ui.live.state import Gap, LiveState, apply, message_between, snapshot_message, update_message
from messaging.adminrpc.topics import NamespaceLive
from tests.admin_ui.scripted_live import live_row

TOPICS = [f"persistent://acme/orders/t{index}" for index in range(5)]
rows = st.dictionaries(st.sampled_from(TOPICS), st.tuples(st.integers(0, 3), st.booleans()), max_size=5)
histories = st.lists(st.tuples(rows, st.booleans(), st.booleans()), min_size=1, max_size=12)


def state_of(epoch: int, sequence: int, content: dict[str, tuple[int, bool]]) -> LiveState:
    topics = [live_row(topic, messages_in=count, loaded=loaded) for topic, (count, loaded) in content.items()]
    return LiveState.from_answer(NamespaceLive(sequence=sequence, at_ms=sequence, boot_epoch=epoch, topics=topics))


@given(histories)
def test_state_plus_updates_equals_fresh_state(history: list[tuple[dict[str, tuple[int, bool]], bool, bool]]) -> None:
    """Each step: the broker may have restarted; the reader may have been too slow to be told."""
    epoch, sequence = 1, 0
    held: LiveState | None = None
    for content, restarted, told in history:
        epoch, sequence = (epoch + 1, 1) if restarted else (epoch, sequence + 1)
        fresh = state_of(epoch, sequence, content)
        if told:
            message = json.loads(json.dumps(message_between(held, fresh)))
            held = apply(held, message)
            assert held == fresh == apply(None, snapshot_message(fresh))


def test_an_update_that_starts_elsewhere_is_a_gap() -> None:
    first, second, third = (state_of(1, number, {TOPICS[0]: (number, True)}) for number in (1, 2, 3))
    message = update_message(second, third)
    with pytest.raises(Gap):
        apply(first, message)
    with pytest.raises(Gap):
        apply(None, message)
    assert apply(second, message) == third


def test_an_update_of_another_boot_is_a_gap() -> None:
    before, after = state_of(1, 5, {}), state_of(2, 5, {})
    assert not after.follows(before)
    assert message_between(before, after)["type"] == "snapshot"
    with pytest.raises(Gap):
        apply(before, {**update_message(before, state_of(1, 6, {})), "epoch": 2})


def test_an_update_holds_only_what_differs() -> None:
    before = state_of(1, 1, {TOPICS[0]: (1, True), TOPICS[1]: (1, True), TOPICS[2]: (1, True)})
    after = state_of(1, 2, {TOPICS[0]: (1, True), TOPICS[1]: (2, True)})
    message = update_message(before, after)
    assert list(message["changed"]) == [TOPICS[1]]
    assert message["removed"] == [TOPICS[2]]
