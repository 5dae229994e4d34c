from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from messaging.client.codec import InvalidAnswer
from messaging.client.message import OutgoingMessage
from messaging.client.pipeline import MemoryBudget, Operation, ProducerPipeline


def pipeline(messages_max: int = 10, bytes_max: int = 1000, send_timeout_s: float = 30) -> ProducerPipeline:
    return ProducerPipeline(messages_max, MemoryBudget(bytes_max), send_timeout_s)


def admit(into: ProducerPipeline, payload: bytes = b"x", now_s: float = 0) -> Operation:
    operation = into.admit(OutgoingMessage(payload), now_s)
    assert operation is not None
    return operation


def written(by: ProducerPipeline) -> list[int]:
    numbers = []
    while (operation := by.next_to_write()) is not None:
        numbers.append(operation.number)
    return numbers


def test_operations_are_written_once_and_settled_in_order() -> None:
    line = pipeline()
    for _ in range(3):
        admit(line)
    assert written(line) == [0, 1, 2]
    assert written(line) == []
    for number in range(3):
        completed = line.complete(number)
        assert completed is not None and completed.number == number
    assert len(line) == 0


def test_the_count_is_bounded() -> None:
    line = pipeline(messages_max=2)
    admit(line), admit(line)
    assert line.admit(OutgoingMessage(b""), 0) is None
    written(line)
    line.complete(0)
    assert admit(line).number == 2


def test_bytes_are_bounded_over_all_producers_of_a_client() -> None:
    memory = MemoryBudget(100)
    first, second = ProducerPipeline(10, memory, 30), ProducerPipeline(10, memory, 30)
    admit(first, b"x" * 60)
    assert second.admit(OutgoingMessage(b"x" * 41), 0) is None
    admit(second, b"x" * 40)
    woken: list[int] = []
    memory.on_release(lambda: woken.append(memory.used_bytes))
    written(first)
    first.complete(0)
    assert woken == [40]
    assert second.admit(OutgoingMessage(b"x" * 60), 0) is not None


def test_a_message_larger_than_the_budget_passes_alone() -> None:
    line = pipeline(bytes_max=10)
    admit(line, b"x" * 50)
    assert line.admit(OutgoingMessage(b"x"), 0) is None
    written(line)
    line.complete(0)
    admit(line)


def test_key_and_properties_count() -> None:
    line = pipeline()
    operation = line.admit(OutgoingMessage(b"1234", "key", {"ab": "cd"}), 0)
    assert operation is not None and operation.size_bytes == 11


def test_after_a_broken_connection_all_unanswered_are_written_again_in_order() -> None:
    line = pipeline()
    for _ in range(4):
        admit(line)
    assert [line.next_to_write() is not None for _ in range(3)] == [True] * 3
    line.complete(0)
    line.connection_lost()
    admit(line)
    assert written(line) == [1, 2, 3, 4]
    line.connection_lost()
    assert written(line) == [1, 2, 3, 4]


def test_answers_out_of_order_break_the_protocol() -> None:
    line = pipeline()
    admit(line), admit(line), admit(line)
    line.next_to_write(), line.next_to_write()
    with pytest.raises(InvalidAnswer, match="before that to 0"):
        line.complete(1)
    line.complete(0), line.complete(1)
    with pytest.raises(InvalidAnswer, match="not sent yet"):
        line.complete(2)
    with pytest.raises(InvalidAnswer, match="never sent"):
        line.complete(3)


def test_an_answer_to_what_timed_out_is_no_surprise() -> None:
    line = pipeline(send_timeout_s=10)
    admit(line, now_s=0), admit(line, now_s=5)
    written(line)
    assert line.next_deadline_s == 10
    assert line.take_expired(9.9) == []
    assert [operation.number for operation in line.take_expired(10)] == [0]
    assert line.complete(0) is None
    assert line.complete(1) is not None
    assert line.next_deadline_s is None


def test_expired_messages_are_not_written_again() -> None:
    line = pipeline(send_timeout_s=10)
    admit(line, now_s=0), admit(line, now_s=5)
    written(line)
    line.take_expired(12)
    line.connection_lost()
    assert written(line) == [1]


def test_only_what_was_never_written_can_be_withdrawn() -> None:
    line = pipeline()
    first, second, third = admit(line), admit(line), admit(line)
    line.next_to_write()
    assert not line.withdraw(first)
    assert line.withdraw(second)
    assert not line.withdraw(second)
    assert written(line) == [2]
    line.connection_lost()
    assert not line.withdraw(third), "its bytes may have arrived over the lost connection"


def test_the_largest_written_is_to_blame_for_a_frame_too_large() -> None:
    line = pipeline()
    admit(line, b"1"), admit(line, b"333"), admit(line, b"22")
    assert line.take_largest_written() is None
    line.next_to_write(), line.next_to_write()
    blamed = line.take_largest_written()
    assert blamed is not None and blamed.number == 1
    line.connection_lost()
    assert written(line) == [0, 2]


class Pipelines(RuleBasedStateMachine):
    """Against a broker that stores what it gets and answers in order over connections that break at any moment.

    Nothing is lost, order holds, and with deduplication by number each message is stored once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.memory = MemoryBudget(50)
        self.line = ProducerPipeline(5, self.memory, 1e9)
        self.stored: list[int] = []  # after deduplication
        self.answers: list[int] = []
        self.admitted = 0
        self.completed: list[int] = []
        self.withdrawn: set[int] = set()
        self.held: dict[int, Operation] = {}

    @rule(size=st.integers(0, 30))
    def send(self, size: int) -> None:
        operation = self.line.admit(OutgoingMessage(b"x" * size), 0)
        if operation is not None:
            self.held[operation.number] = operation
            self.admitted += 1

    @rule(arrives=st.booleans())
    def write(self, arrives: bool) -> None:
        operation = self.line.next_to_write()
        if operation is None:
            return
        if not arrives:
            self.break_connection()
            return
        if operation.number > max(self.stored, default=-1):
            self.stored.append(operation.number)
        self.answers.append(operation.number)

    @rule()
    def answer(self) -> None:
        if self.answers:
            operation = self.line.complete(self.answers.pop(0))
            assert operation is not None
            self.completed.append(operation.number)

    @rule()
    def break_connection(self) -> None:
        self.answers.clear()
        self.line.connection_lost()

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.held) or [-1]))
        if number >= 0 and self.line.withdraw(self.held[number]):
            self.withdrawn.add(number)

    @invariant()
    def nothing_is_lost_or_out_of_order(self) -> None:
        assert self.completed == [n for n in range(self.admitted) if n not in self.withdrawn][: len(self.completed)]
        assert set(self.completed) <= set(self.stored)
        assert self.stored == sorted(set(self.stored))
        assert not self.withdrawn & set(self.stored)
        assert len(self.line) == self.admitted - len(self.completed) - len(self.withdrawn) <= 5

    @invariant()
    def room_comes_back(self) -> None:
        assert self.memory.used_bytes == sum(
            operation.size_bytes
            for number, operation in self.held.items()
            if number not in self.withdrawn and number not in self.completed
        )

    def teardown(self) -> None:
        """A connection that holds brings everything home."""
        self.break_connection()
        while len(self.line):
            self.write(arrives=True)
            self.answer()
        assert sorted([*self.completed, *self.withdrawn]) == list(range(self.admitted))
        assert self.memory.used_bytes == 0


TestPipelines = Pipelines.TestCase
