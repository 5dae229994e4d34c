"""Texts for the WebSocket API that nobody should send: fields at their limits and over them, wrong types, no JSON. Seeded."""

from __future__ import annotations

import base64
import json
import random
from typing import Any
from urllib.parse import quote

from messaging.broker.http.websocket.frames import FRAMES
from messaging.broker.http.websocket.parameters import PARAMETERS
from messaging.limits.structs import rows_of
from messaging.message_id import encode_message_id
from tests.adversary.hostile.binary_frames import EDGES, SUBSCRIPTIONS, TOPICS

WEBSOCKET = rows_of([*FRAMES, *PARAMETERS])

ODD: list[Any] = [None, True, False, 0, -1, 1.5, 1e308, 2**63, 2**64, -(2**63), 10**400, "", "x", [], {}, [[]], {"a": {"b": []}}]
NO_JSON = ["", "{", "[" * 5000, "\x00", '{"payload":', "nul", '{"a":1}{"b":2}', '"\\ud800"', "\ufeff{}", "{" * 2000]
CAMEL = {"event_time": "eventTime", "sequence_id": "sequenceId", "deliver_at": "deliverAt", "deliver_after_ms": "deliverAfterMs"}
CAMEL |= {"message_id": "messageId", "permit_messages": "permitMessages", "encryption_param": "encryptionParam"}
CAMEL |= {"replication_clusters": "replicationClusters"}
COMMANDS = ["permit", "negativeAcknowledge", "isEndOfTopic", "unsubscribe", "x"]


class WebFrames:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def conversation(self, count: int) -> tuple[str, list[str]]:
        """(path and query, texts)."""
        chance = self.chance
        kind = chance.choice(["producer", "producer", "consumer", "reader"])
        topic = chance.choice(TOPICS).replace("://", "/")
        path = f"/ws/v2/{kind}/{topic}"
        if kind == "consumer":
            path += f"/{quote(chance.choice(SUBSCRIPTIONS) or 's', safe='')}"
        make = self._message if kind == "producer" else self._command
        return path + self._query(kind), [make() for _ in range(count)]

    def _query(self, kind: str) -> str:
        chance = self.chance
        names = [name.partition(".")[2] for name in WEBSOCKET if name.startswith(f"{kind.title()}Parameters.")]
        if chance.random() < 0.6:
            return "?receiverQueueSize=50" if kind != "producer" else ""
        name = chance.choice(names)
        first, *rest = name.split("_")
        value = chance.choice([str(chance.choice(EDGES)), "-1", "x", "é" * 20, "n" * 1020, "n" * 1021])
        return f"?{first}{''.join(map(str.title, rest))}={quote(value)}"

    def _message(self) -> str:
        chance = self.chance
        if chance.random() < 0.05:
            return chance.choice(NO_JSON)
        frame: dict[str, Any] = {"payload": base64.b64encode(chance.randbytes(chance.randrange(40))).decode()}
        for name in [name for name in WEBSOCKET if name.startswith("ProducerFrame.") and chance.random() < 0.25]:
            frame[CAMEL.get(field := name.partition(".")[2], field)] = self._value(name)
        return json.dumps(frame)

    def _command(self) -> str:
        chance = self.chance
        if chance.random() < 0.05:
            return chance.choice(NO_JSON)
        frame: dict[str, Any] = {}
        if chance.random() < 0.8:
            numbers = [chance.choice([*EDGES, -1, 2**33]) if chance.random() < 0.3 else chance.randrange(50) for _ in range(3)]
            frame["messageId"] = encode_message_id(numbers[0], numbers[1], numbers[2] if chance.random() < 0.5 else -1)
        if chance.random() < 0.5:
            frame["type"] = chance.choice(COMMANDS[:-2] if chance.random() < 0.95 else COMMANDS)
        if chance.random() < 0.3:
            frame["permitMessages"] = chance.choice([1, 5, 0, -1, 2**31 - 1, 2**31, 2**63, 1.5, "3"])
        if chance.random() < 0.1:
            frame[chance.choice(["messageId", "type", "permitMessages", "other"])] = chance.choice(ODD)
        return json.dumps(frame)

    def _value(self, name: str) -> Any:
        chance, limit = self.chance, WEBSOCKET[name]
        if chance.random() < 0.2:
            return chance.choice(ODD)
        more = chance.choice([-1, 0, 1])
        if name.endswith(".properties"):
            assert limit.count_max
            count = limit.count_max + more if chance.random() < 0.05 else chance.randrange(4)
            return {f"k{number}": chance.choice(["v", "", 1, None, True]) for number in range(count)}
        if limit.count_max is not None:
            return ["x"] * chance.randrange(3)
        if limit.bytes_max is not None:
            return "x" * (limit.bytes_max + more) if limit.bytes_max <= 4096 or chance.random() < 0.01 else "x"
        if limit.minimum is not None and limit.maximum is not None:
            return chance.choice([limit.minimum, limit.maximum, limit.minimum - 1, limit.maximum + 1, 5])
        return base64.b64encode(chance.randbytes(20)).decode()
