"""Running a client's program against a platform."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.compat.probes.install import INSTALLED, ROOT, Client
from tests.compat.scenarios import Platform, World, topic_path
from tests.support.clients.chunking import chunk_frame
from tests.support.clients.raw_client import RawClient, send_frame

TIMEOUT_S = 100
INTERWOVEN = (
    chunk_frame(0, b"fi", 0, 2, total_bytes=5),
    chunk_frame(1, b"se", 0, 2, total_bytes=6),
    chunk_frame(1, b"cond", 1, 2, total_bytes=6),
    chunk_frame(0, b"rst", 1, 2, total_bytes=5),
)
UNFINISHED = (chunk_frame(0, b"fi", 0, 2, total_bytes=5), send_frame(1, b"after"))


class Keys(NamedTuple):
    """Paths of a key pair in PEM."""

    public: str
    private: str


class Result(NamedTuple):
    """What a client said of the features it offers: "" where one works, or the error. `output` is all that it printed."""

    features: dict[str, str]
    output: str
    exit_code: int


def make_keys(folder: Path) -> Keys:
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    public, private = folder / "public.pem", folder / "private.pem"
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    )
    return Keys(str(public), str(private))


def probe_all(chosen: dict[str, Client], platform: Platform, keys: Keys) -> dict[str, Result]:
    """What those clients of `chosen` that are installed said. They run side by side."""
    with ThreadPoolExecutor(4) as pool:
        futures = {name: pool.submit(probe, client, platform, keys) for name, client in chosen.items() if client.ready}
        return {name: future.result() for name, future in futures.items()}


def probe(client: Client, platform: Platform, keys: Keys) -> Result:
    """Features that fail are tried once more, the machine may be busy; all of them after a crash, as old clients do."""
    first = _run(client, platform, keys, "")
    failed = [name for name, error in first.features.items() if error]
    if not failed and not first.exit_code:
        return first
    again = _run(client, platform, keys, "" if first.exit_code else ",".join(failed))
    return again._replace(features=first.features | again.features)


def _run(client: Client, platform: Platform, keys: Keys, only: str) -> Result:
    world = World(platform, "client")
    try:
        plan = _plan(world, keys)
    finally:
        world.close()
    if only:
        plan["only"] = only
    return _told(client, plan)


def probe_tls(client: Client, broker_url_tls: str, token: str, trust: str) -> Result:
    """Whether a client publishes and receives over TLS. `trust`: the path of a certificate, or ""."""
    topic = f"persistent://public/default/{uuid.uuid4().hex}-"
    plan = {"broker": broker_url_tls, "token": token, "topics": topic, "only": "produce_and_consume"}
    return _told(client, plan | ({"trust": trust} if trust else {}))


def _told(client: Client, plan: dict[str, str]) -> Result:
    """What its program says when it was told this."""
    variables = {"PYTHONPATH": str(ROOT), "NODE_PATH": str(INSTALLED / "javascript" / "node_modules"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [*client.command, json.dumps(plan, ensure_ascii=False)],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    features = {line["feature"]: "" if line["ok"] else str(line.get("error") or "failed") for line in lines}
    return Result(features, (done.stdout + done.stderr)[-4000:], done.returncode)


@lru_cache
def _compacted(platform: Platform) -> str:
    """One for all clients."""
    world = World(platform, "compacted")
    try:
        topic = world.topic()
        producer = world.batching(topic, 3)
        for key, value in (("a", "a1"), ("b", "b1"), ("a", "a2"), ("b", "b2"), ("c", "c1"), ("b", "")):
            producer.send_async(value.encode(), lambda result, identifier: None, partition_key=key)
        producer.flush()
        producer.close()
        assert world.compact(topic) == "SUCCESS"
    finally:
        world.close()
    return topic


def _plan(world: World, keys: Keys) -> dict[str, str]:
    ended = world.topic("ended")
    world.send(ended, "last")
    world.admin("POST", f"{topic_path(ended)}/terminate")
    return {
        "broker": world.platform.broker_url,
        "token": world.platform.token or "none",
        "topics": world.topic(""),
        "partitioned": world.partitioned(3, "three"),
        "single": world.partitioned(1, "one"),
        "ended": ended,
        "compacted": _compacted(world.platform),
        "hashed": world.partitioned(3, "hashed"),
        "interwoven": _chunked(world, "interwoven", INTERWOVEN),
        "unfinished": _chunked(world, "unfinished", UNFINISHED),
        "admin": world.platform.web_url,
        "delayed": _delayed(world),
        "enforced": world.namespace(schemaValidationEnforced=True),
        "deduplicated": world.namespace(deduplication=True),
        "public_key": keys.public,
        "private_key": keys.private,
    }


def _delayed(world: World) -> str:
    """A topic for a client that cannot publish such messages: with a Shared subscription, which has one for much later, too."""
    topic = world.topic("delayed-already")
    world.consumer(topic, "s", "Shared").close()
    producer = world.producer(topic)
    producer.send(b"much later", deliver_after=timedelta(hours=1))
    producer.send(b"soon", deliver_after=timedelta(seconds=3))
    producer.send(b"now")
    producer.close()
    return topic


def _chunked(world: World, suffix: str, frames: tuple[bytes, ...]) -> str:
    """A topic with messages that no stock client sends in this order."""
    topic = world.topic(suffix)
    asyncio.run(_write(world.platform, topic, frames))
    return topic


async def _write(platform: Platform, topic: str, frames: tuple[bytes, ...]) -> None:
    client = await RawClient.open(urlsplit(platform.broker_url).port or 6650)
    await client.connect(platform.token)
    await client.producer(topic)
    client.write(*frames)
    for _ in frames:
        await client.expect("SEND_RECEIPT")
    await client.close()
