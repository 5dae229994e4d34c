"""Runs all cases on a platform: ours writes, Apache's Java client writes and reads, ours reads."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from messaging.client import blocking as magnetar
from tests.compat.cross_reading.cases import CASES, Case
from tests.compat.probes import CLIENTS
from tests.compat.scenarios import Platform, World

JAVA = CLIENTS["Java 4.0.8"]
RECORDED = Path(__file__).with_name("recorded.json")
COMMAND = (*JAVA.command[:-1], "CrossReading")  # which is compiled beside the probe
JAVA_S = 150
RECEIVE_S = 15.0
OUR_READER, THEIR_READER = "written by Java's, read by ours", "written by ours, read by Java's"
Outcome = dict[str, dict[str, Any]]
"""By who reads and by case: the texts of what was read, or "failed: ..."."""


def run(platform: Platform, folder: Path) -> Outcome:
    """`folder`: of key pairs. Raises `AssertionError` if the Java client does not run."""
    world = World(platform, "cross-reading")
    ours, theirs = world.topic("ours-"), world.topic("theirs-")
    world.close()
    keys = {key: _key_pair(folder, key) for key in ("rsa", "ec")}
    with magnetar.connect(platform.broker_url, key=platform.token) as client, ThreadPoolExecutor(4) as pool:
        writing = [name for name, case in CASES.items() if case.values]
        errors = pool.map(lambda name: _attempt(_write, client, ours + name, CASES[name], keys), writing)
        written = dict(zip(writing, errors, strict=True))
        plan = {"broker": platform.broker_url, "token": platform.token or "none", "ours": ours, "theirs": theirs}
        for key, (public, private) in keys.items():
            plan |= {f"{key}_public": str(public), f"{key}_private": str(private)}
        answers = _java(plan)
        read = dict(zip(CASES, pool.map(lambda name: _attempt(_read, client, theirs, name, keys), CASES), strict=True))
    # What went wrong when it was written says more than that nothing was read.
    return {
        OUR_READER: {name: _failure(answers[name]["written"]) or read[name] for name in CASES},
        THEIR_READER: {name: written.get(name) or answers[name]["read"] for name in CASES},
    }


def _failure(answer: Any) -> str | None:
    return answer if isinstance(answer, str) else None


def _attempt(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Exception as error:  # an outcome as others
        return f"failed: {type(error).__name__}: {error}"[:600]


def _write(client: magnetar.Client, topic: str, case: Case, keys: dict[str, tuple[Path, Path]]) -> None:
    encryption = magnetar.Encryptor({case.key: keys[case.key][0].read_bytes()}) if case.key else None
    # A batch ends with its last message, however slow this machine is.
    batching = {"batch_messages_max": len(case.values), "batch_delay_ms": 600_000}
    options: Any = {**batching, "compression": case.compression, "encryption": encryption}
    with client.producer(topic, schema=case.schema, **options) as producer:
        producer.send(case.values[0])
        futures = [producer.send_nowait(value) for value in case.values]
        producer.flush()
        assert len({future.result()[:2] for future in futures}) == 1, "one batch"


def _read(client: magnetar.Client, prefix: str, name: str, keys: dict[str, tuple[Path, Path]]) -> list[str]:
    case = CASES[name]
    texts: list[str] = []
    decryption = magnetar.Decryptor({case.key: keys[case.key][1].read_bytes()}) if case.key else None
    topic = prefix + (case.topic or name)
    with client.consumer(topic, name, schema=case.schema, initial="earliest", decryption=decryption) as consumer:
        while len(texts) < len(case.texts):
            value = consumer.receive(RECEIVE_S).value
            if isinstance(value, Exception):
                raise value
            texts.append("null" if value is None else case.text(value))
    return texts


def _java(plan: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run([*COMMAND, json.dumps(plan)], capture_output=True, text=True, timeout=JAVA_S)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
    answers = {line["case"]: line for line in lines}
    assert list(answers) and answers.keys() == CASES.keys(), (done.stdout + done.stderr)[-4000:]
    return answers


def _key_pair(folder: Path, key: str) -> tuple[Path, Path]:
    """Public and private, in PEM."""
    made: Any = rsa.generate_private_key(65_537, 2048) if key == "rsa" else ec.generate_private_key(ec.SECP256R1())
    public, private = folder / f"{key}-public.pem", folder / f"{key}-private.pem"
    public.write_bytes(made.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    private.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    return public, private


def recorded() -> Outcome:
    return json.loads(RECORDED.read_text()) if RECORDED.exists() else {}


def record(outcome: Outcome) -> None:
    """A line for each case."""
    directions = []
    for direction, read in outcome.items():
        lines = [f"    {json.dumps(name)}: {json.dumps(texts, ensure_ascii=False)}" for name, texts in read.items()]
        directions.append(f"  {json.dumps(direction)}: {{\n" + ",\n".join(lines) + "\n  }")
    RECORDED.write_text("{\n" + ",\n".join(directions) + "\n}\n")
