"""A stage on which a chapter runs: a tenant of its own, its names, its clients, and lines that prepare what commands look at."""

from __future__ import annotations

import json
import re
import secrets
import shlex
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pulsar

from tests.compat.admin.plain import plain_text
from tests.compat.admin.proxy import Exchange, send
from tests.compat.scenarios import Platform
from tests.support.waiting import eventually_sync

_ID = re.compile(r"\{(id|ledger|entry|ms)(\d+)\}")
_NOW = re.compile(r"\{now([+-]\d+)\}")
_MOMENT = re.compile(r"(?<=/)1[6-9]\d{11}\b")


class Stage:
    """Steps may use ``{tenant}``, ``{ns}`` (tenant/ns), ``{T}`` (persistent://tenant/ns), ``{N}`` (non-persistent://tenant/ns) and,
    of the messages that the chapter published, ``{id0}``, ``{ledger0}``, ``{entry0}`` and ``{ms0}``; ``{dir}`` is for files."""

    def __init__(self, platform: Platform, chapter: str) -> None:
        self.platform = platform
        self.tenant = f"{chapter.replace('.', '-').replace('_', '-')}-{secrets.token_hex(4)}"
        self._logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(platform.log_file))
        authentication = None if platform.token is None else pulsar.AuthenticationToken(platform.token)
        self._client = pulsar.Client(platform.broker_url, authentication, operation_timeout_seconds=10, logger=self._logger)
        self._members: dict[str, Any] = {}
        self._received: dict[str, list[Any]] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="commands-")
        self._ids: list[pulsar.MessageId] = []
        self._times: list[int] = []
        for path, body in (
            (f"tenants/{self.tenant}", {"adminRoles": [], "allowedClusters": ["standalone"]}),
            (f"namespaces/{self.tenant}/ns", {"replication_clusters": ["standalone"]}),
        ):
            answer = self.request("PUT", f"/admin/v2/{path}", json.dumps(body))
            assert answer.status == 204, answer

    @property
    def names(self) -> dict[str, str]:
        return {self.tenant: "{tenant}", self._folder.name: "{dir}"}

    def filled(self, text: str) -> str:
        """With the values of this run."""
        text = text.replace("{T}", "persistent://{tenant}/ns").replace("{N}", "non-persistent://{tenant}/ns")
        text = text.replace("{ns}", "{tenant}/ns").replace("{tenant}", self.tenant).replace("{dir}", self._folder.name)
        text = _NOW.sub(lambda match: str(int(time.time() * 1000) + int(match[1])), text)
        return _ID.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        kind, number = match[1], int(match[2])
        message_id = self._ids[number]
        values = {"ledger": message_id.ledger_id(), "entry": message_id.entry_id(), "ms": self._times[number]}
        return f"{message_id.ledger_id()}:{message_id.entry_id()}" if kind == "id" else str(values[kind])

    def template(self, text: str) -> str:
        """A path or a body as it is written down: what this run made, as placeholders."""
        for number, message_id in enumerate(self._ids):
            ledger, entry = message_id.ledger_id(), message_id.entry_id()
            text = text.replace(f"/ledger/{ledger}/entry/{entry}", f"/ledger/{{ledger{number}}}/entry/{{entry{number}}}")
            text = text.replace(f"/ledger/{ledger}/", f"/ledger/{{ledger{number}}}/")
            pattern = rf'"entryId": {entry},(.*?) "ledgerId": {ledger},'
            text = re.sub(pattern, rf'"entryId": {{entry{number}}},\1 "ledgerId": {{ledger{number}}},', text)
            text = text.replace(str(self._times[number]), f"{{ms{number}}}")
        now_s = int(time.time())
        text = _MOMENT.sub(lambda match: _moment(int(match[0]), now_s), text)
        return text.replace(self.tenant, "{tenant}")

    # --- steps ---

    def prepare(self, line: str) -> None:
        """A step that begins with ``@``; see the methods below."""
        verb, *arguments = shlex.split(self.filled(line[1:]))
        try:
            getattr(self, f"do_{verb.replace('-', '_')}")(*arguments)
        except pulsar.PulsarException as error:  # what the next commands are answered will tell
            sys.stderr.write(f"{line}: {error}\n")

    def do_send(self, topic: str, *texts: str) -> None:
        """One entry for each text; ``key=value`` before a ``;`` of the text is its key."""
        producer = self._client.create_producer(topic, batching_enabled=False)
        for text in texts:
            key, _, value = text.rpartition(";")
            self._at(producer.send(value.encode(), **({"partition_key": key} if key else {})))
        producer.close()

    def do_batch(self, topic: str, *texts: str) -> None:
        """All texts in one entry."""
        producer = self._client.create_producer(
            topic, batching_enabled=True, batching_max_messages=max(2, len(texts)), batching_max_publish_delay_ms=60_000
        )
        ids: list[pulsar.MessageId] = []
        for text in texts:
            producer.send_async(text.encode(), lambda result, message_id: ids.append(message_id))
        producer.flush()
        producer.close()
        self._at(ids[0])

    def _at(self, message_id: pulsar.MessageId) -> None:
        """A time after the message and before the next one."""
        stored_ms = _now_ms()
        eventually_sync(lambda: _now_ms() > stored_ms)
        self._ids.append(message_id)
        self._times.append(_now_ms())
        eventually_sync(lambda: _now_ms() > self._times[-1])

    def do_producer(self, topic: str, name: str) -> None:
        self._members[name] = self._client.create_producer(topic, producer_name=name)

    def do_consumer(self, topic: str, subscription: str, kind: str, name: str) -> None:
        kind = getattr(pulsar.ConsumerType, kind)
        self._members[name] = self._client.subscribe(topic, subscription, kind, consumer_name=name)

    def do_receive(self, name: str, count: str) -> None:
        """Messages that stay unacknowledged."""
        for _ in range(int(count)):
            self._received.setdefault(name, []).append(self._members[name].receive(10_000))

    def do_redeliver(self, name: str) -> None:
        """All that it received and did not acknowledge."""
        self._received.pop(name, None)
        self._members[name].redeliver_unacknowledged_messages()

    def do_ack(self, name: str, count: str) -> None:
        """Of what it did not receive yet."""
        self._acknowledge(name, (self._members[name].receive(10_000) for _ in range(int(count))), int(count))

    def do_ack_received(self, name: str, count: str) -> None:
        self._acknowledge(name, [self._received[name].pop(0) for _ in range(int(count))], int(count))

    def _acknowledge(self, name: str, messages: Iterable[Any], count: int) -> None:
        unacked = self._unacked(name)
        for message in messages:
            self._members[name].acknowledge(message)
        eventually_sync(lambda: self._unacked(name) == unacked - count)

    def _unacked(self, name: str) -> int:
        """Messages that the consumer holds, on their way included."""
        topic, subscription = self._members[name].topic(), self._members[name].subscription_name()
        stats = self.request("GET", f"/admin/v2/{topic.replace('://', '/')}/stats").answer
        return int(stats["subscriptions"][subscription]["unackedMessages"])

    def do_compacted(self, topic: str) -> None:
        """Waits for the end of a compaction, which a platform may reach before or after the next command."""
        path = f"/admin/v2/{topic.replace('://', '/')}/compaction"
        eventually_sync(lambda: self.request("GET", path).answer["status"] != "RUNNING")

    def do_file(self, name: str, text: str) -> None:
        (Path(self._folder.name) / name).write_text(text)

    def do_close(self, name: str) -> None:
        self._members.pop(name).close()

    # --- requests ---

    def request(self, method: str, path: str, body: str = "", **headers: str) -> Exchange:
        """Any status is an answer."""
        token = self.platform.token
        sent = {"Content-Type": "application/json", "Accept": "*/*"} | headers
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        return send(self.platform.web_url.partition("://")[2].rstrip("/"), method, path, body.encode(), sent)[0]

    def shown(self, text: str) -> str:
        return plain_text(text, self.names)

    def close(self) -> None:
        self._client.close()
        self._folder.cleanup()


def _now_ms() -> int:
    return int(time.time() * 1000)


def _moment(at_ms: int, now_s: int) -> str:
    """A time that the tool counted from the present, as such."""
    ago_s = now_s - at_ms // 1000
    return f"{{now{-round(ago_s, -1) * 1000:+}}}" if abs(ago_s) < 86400 else str(at_ms)
