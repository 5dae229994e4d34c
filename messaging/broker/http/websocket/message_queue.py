"""Messages that wait for the peer of a WebSocket, oldest first. Those of one partition can be taken out without a look at the
others: a client that does not read has thousands here, and thousands of partitions may be closed one after another. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from messaging.broker.runtime.local.messages import DeliveredMessage


class MessageQueue:
    __slots__ = ("_by_number", "_next", "_numbers")

    def __init__(self) -> None:
        self._by_number: OrderedDict[int, DeliveredMessage] = OrderedDict()
        self._numbers: dict[tuple[str, int], set[int]] = {}  # of each topic, if there are several, and partition
        self._next = 0

    def __len__(self) -> int:
        return len(self._by_number)

    def __iter__(self) -> Iterator[DeliveredMessage]:
        return iter(self._by_number.values())

    def extend(self, messages: Iterable[DeliveredMessage]) -> None:
        for message in messages:
            self._by_number[self._next] = message
            self._numbers.setdefault((message.topic, message.position.partition), set()).add(self._next)
            self._next += 1

    def popleft(self) -> DeliveredMessage:
        number, message = self._by_number.popitem(last=False)
        source = message.topic, message.position.partition
        numbers = self._numbers[source]
        numbers.discard(number)
        if not numbers:
            del self._numbers[source]
        return message

    def take_out(self, partition: int, topic: str = "") -> list[DeliveredMessage]:
        return [self._by_number.pop(number) for number in self._numbers.pop((topic, partition), ())]

    def clear(self) -> None:
        self._by_number.clear()
        self._numbers.clear()
