from __future__ import annotations

import pytest

from messaging.client import inbox as inbox_module
from messaging.client.inbox import Inbox
from messaging.client.message import Message, MessageId


def message(name: str, payload: bytes = b"x") -> Message:
    return Message(MessageId(name), payload, {}, 0)


def test_messages_come_out_in_order_and_give_their_room_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "QUEUED_BYTES_MAX", 10)
    inbox = Inbox()
    inbox.arrived(message("a", b"x" * 9))
    assert not inbox.full
    inbox.arrived(message("b", b"x" * 9))
    assert inbox.full
    assert [taken.id.text for taken in (inbox.take(), inbox.take()) if taken] == ["a", "b"]
    assert inbox.take() is None and not inbox.full


def test_a_broken_connection_forgets_messages_and_keeps_answers() -> None:
    inbox = Inbox()
    inbox.arrived(message("a"))
    inbox.answer("ack b")
    inbox.connection_lost()
    assert (len(inbox), inbox.queued_bytes, inbox.take()) == (0, 0, None)
    assert inbox.next_answer() == "ack b"


def test_an_answer_that_was_not_written_is_the_next_again() -> None:
    inbox = Inbox()
    inbox.answer("1")
    inbox.answer("2")
    assert inbox.next_answer() == "1"
    inbox.give_back("1")
    assert [inbox.next_answer(), inbox.next_answer(), inbox.next_answer()] == ["1", "2", None]


def test_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "ANSWERS_MAX", 2)
    inbox = Inbox()
    for frame in ("1", "2", "3"):
        inbox.answer(frame)
    assert (inbox.answers, inbox.dropped_answers, inbox.next_answer()) == (2, 1, "2")
