from __future__ import annotations

from messaging.broker.http.websocket.message_queue import MessageQueue
from messaging.broker.runtime.local.messages import DeliveredMessage, MessagePosition


def message(number: int, partition: int) -> DeliveredMessage:
    return DeliveredMessage(MessagePosition(1, number, -1, partition), b"", 0)


def test_messages_come_in_order_without_those_that_were_taken_out() -> None:
    queue = MessageQueue()
    messages = [message(number, number % 3) for number in range(9)]
    queue.extend(messages)
    assert [queue.popleft(), queue.popleft()] == messages[:2]
    assert sorted(queue.take_out(0), key=lambda gone: gone.position) == [messages[3], messages[6]]
    assert queue.take_out(0) == []
    queue.extend([message(9, 0)])
    assert list(queue) == [*messages[2:3], *messages[4:6], *messages[7:], message(9, 0)]
    assert [queue.popleft().position.entry_id for _ in range(len(queue))] == [2, 4, 5, 7, 8, 9]
    assert not queue.take_out(1)
    queue.extend(messages)
    queue.clear()
    assert not len(queue) and not queue.take_out(2)
