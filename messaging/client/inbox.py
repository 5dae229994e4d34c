"""Messages that a consumer has received but not returned yet, and acknowledgements that it still has to send. No I/O.

After a lost connection the broker redelivers everything unacknowledged, so messages that were not returned yet are forgotten.
Acknowledgements of returned messages are kept: a message id means the same on the next connection.
"""

from __future__ import annotations

from collections import deque

from messaging.client.message import Message

QUEUED_BYTES_MAX = 16 << 20
ANSWERS_MAX = 10_000  # kept while there is no connection; the oldest are dropped, and their messages come again


class Inbox:
    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._answers: deque[str] = deque()
        self.queued_bytes = 0
        self.dropped_answers = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def full(self) -> bool:
        """Reading from the connection pauses; one message more than fits is taken, so that a large one is not stuck."""
        return self.queued_bytes >= QUEUED_BYTES_MAX

    def arrived(self, message: Message) -> None:
        self._messages.append(message)
        self.queued_bytes += len(message.payload)

    def take(self) -> Message | None:
        if not self._messages:
            return None
        message = self._messages.popleft()
        self.queued_bytes -= len(message.payload)
        return message

    def answer(self, frame: str) -> None:
        if len(self._answers) >= ANSWERS_MAX:
            self._answers.popleft()
            self.dropped_answers += 1
        self._answers.append(frame)

    def next_answer(self) -> str | None:
        """The next frame to write; it counts as written unless it is given back."""
        return self._answers.popleft() if self._answers else None

    def give_back(self, frame: str) -> None:
        self._answers.appendleft(frame)

    @property
    def answers(self) -> int:
        return len(self._answers)

    def connection_lost(self) -> None:
        self._messages.clear()
        self.queued_bytes = 0
