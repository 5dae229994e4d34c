"""What one tenant feels of another: an innocent client alone, and under each attack, through the real broker.

Worst ping, publish latency and throughput of the innocent are compared with what it has alone in the same run (before, between and
after the attacks); memory of the broker with its budget. The attackers are one process that runs at a lower priority, since broker,
innocent and attackers share the machine: what is measured is the broker's fairness, not the machine's.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit

from messaging.identity import issue_token
from tests.benchmarks import processes
from tests.benchmarks.hostile import at_ceilings, attacks
from tests.benchmarks.load import Stalled
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Progress, Section, Table, number

MEMORY_BUDGET_BYTES = 64 << 20
SETTLE_S = 1.0
PATIENCE_S = 60.0
PING_OVER_ALONE_MS = 50.0
THROUGHPUT_SHARE = 0.8
MEMORY_OVER_BUDGET_MIB = 64.0
CHANGING, CHANGED_EVERY_S = "many-topics", 0.5  # the attack during which policies of the namespace change
AT_CEILINGS = "exceed-all"  # the attack during which the hostile tenant has ceilings
LISTED_TOPICS = 200  # of the hostile tenant: so that listings have something to list


class Felt(NamedTuple):
    """By the innocent, in ms and receipts a second."""

    ping_worst_ms: float
    ping_p99_9_ms: float
    publish_p99_9_ms: float
    receipts_per_s: float
    unanswered: int


class UnderAttack(NamedTuple):
    name: str
    felt: Felt
    resident_bytes: int
    done: int
    cut_off: int


def run(directory: Path | None, seconds: float, progress: Progress, names: list[str] | None = None) -> Section:
    """`seconds`: of each attack, and of the innocent alone before and after all of them."""
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
        broker = RealBroker(Path(made), memory_budget_bytes=MEMORY_BUDGET_BYTES)
        try:
            tokens = _two_tenants(broker)
            _innocent(broker, tokens["innocent"], max(1.0, seconds / 2))  # warms everything up
            idle_bytes = broker.cost().resident_bytes
            alone = [_innocent(broker, tokens["innocent"], seconds)]
            attacked = []
            for name in names or list(attacks.ATTACKS):
                progress(f"under attack: {attacks.ATTACKS[name][0]}")
                attacked.append(_under_attack(broker, name, tokens, seconds))
            alone.append(_innocent(broker, tokens["innocent"], seconds))
        finally:
            broker.close()
    return _section(alone, attacked, idle_bytes)


def _two_tenants(broker: RealBroker) -> dict[str, str]:
    """Tokens of two tenants, each with a key that may produce and consume in its one namespace."""
    changes: list[tuple[str, str, dict[str, Any]]] = []
    tokens = {}
    for tenant, local in (("innocent", "shop"), ("hostile", "mob")):
        role, key = f"app@{tenant}", f"key-{tenant}"
        changes += [
            ("tenant", tenant, {"admin_roles": [], "allowed_clusters": ["standalone"]}),
            ("namespace", f"{tenant}/{local}", {"grants": {role: ["produce", "consume"]}}),
            ("key", key, {"role": role, "tenant": tenant, "revoked": False}),
        ]
        tokens[tenant] = issue_token(broker.settings, role, key, int(time.time()))
    broker.tell(changes)
    for index in range(LISTED_TOPICS):
        broker.create_topic(f"persistent://hostile/mob/a-topic-with-a-rather-long-name-{index:04}")
    return tokens


def _under_attack(broker: RealBroker, name: str, tokens: dict[str, str], seconds: float) -> UnderAttack:
    host, port = broker.address
    ws_port = urlsplit(broker.addresses["ws_url"]).port
    command = [sys.executable, "-P", "-m", "tests.benchmarks.hostile.attacks", name, host, str(port), str(seconds + 2 * SETTLE_S)]
    with tempfile.TemporaryFile() as output:
        command += ["--ws-port", str(ws_port), "--token", tokens["hostile"], "--data-dir", broker.settings.data_dir]
        if name == AT_CEILINGS:
            _set_policies(broker, at_ceilings.POLICIES)
        attacker = processes.start(command, output)
        try:
            _wait_until_begun(attacker, output)
            time.sleep(SETTLE_S)
            with _policies_changing(broker) if name == CHANGING else nullcontext():
                felt = _innocent(broker, tokens["innocent"], seconds)
            resident_bytes = broker.cost().resident_bytes_max
            attacker.wait(PATIENCE_S)
        finally:
            processes.end(attacker)
            if name == AT_CEILINGS:
                _set_policies(broker, {})
        output.seek(0)
        said = output.read().splitlines()
    if len(said) < 2:
        raise Stalled(f"the attack {name!r} ended without saying what came of it")
    answer: dict[str, int] = json.loads(said[-1])
    return UnderAttack(name, felt, resident_bytes, answer["done"], answer["cut_off"])


def _wait_until_begun(attacker: subprocess.Popen[bytes], output: IO[bytes]) -> None:
    """`output` is the attacker's, which goes on writing where it is: it is read without moving there."""
    until_s = time.monotonic() + attacks.PREPARED_S + PATIENCE_S
    while attacker.poll() is None and not os.pread(output.fileno(), len(attacks.BEGUN), 0):
        if time.monotonic() >= until_s:
            raise Stalled("an attack has not begun")
        time.sleep(attacks.LOOK_S)


def _set_policies(broker: RealBroker, policies: dict[str, Any]) -> None:
    broker.tell([("tenant", "hostile", {"admin_roles": [], "allowed_clusters": ["standalone"], "policies": policies})])


@contextmanager
def _policies_changing(broker: RealBroker) -> Iterator[None]:
    ended = threading.Event()
    grants = {"app@hostile": ["produce", "consume"]}

    def change() -> None:
        for turn in itertools.count():
            if ended.wait(CHANGED_EVERY_S):
                return
            policies = {"backlog_quota_bytes": 1 << 30} if turn % 2 else {}
            broker.tell([("namespace", "hostile/mob", {"grants": grants, "policies": policies})])

    changing = threading.Thread(target=change)
    changing.start()
    try:
        yield
    finally:
        ended.set()
        changing.join()


def _innocent(broker: RealBroker, token: str, seconds: float) -> Felt:
    host, port = broker.address
    command = [sys.executable, "-P", "-m", "tests.benchmarks.hostile.innocent", host, str(port), str(seconds), token]
    with tempfile.TemporaryFile() as output:
        child = processes.start(command, output)
        try:
            child.wait(seconds + PATIENCE_S)
        finally:
            processes.end(child)
        output.seek(0)
        said = output.read()
    try:
        answer: dict[str, Any] = json.loads(said)
    except ValueError:
        raise Stalled(f"the innocent client did not get through: {said[-500:].decode(errors='replace')}") from None
    ping, publish = answer["ping"], answer["publish"]
    return Felt(ping["max_ms"], ping["p99_9_ms"], publish["p99_9_ms"], answer["receipts_per_s"], answer["unanswered"])


def _section(alone: list[Felt], attacked: list[UnderAttack], idle_bytes: int) -> Section:
    worst_alone_ms = max(felt.ping_worst_ms for felt in alone)
    receipts_alone = statistics.mean(felt.receipts_per_s for felt in alone)
    budget_mib = MEMORY_BUDGET_BYTES / 2**20
    words = (
        "An innocent tenant pings every 5 ms, publishes 1 KiB at 500/s on one connection and with 100 in flight on another. Alone, "
        f"its worst ping is {number(worst_alone_ms)} ms and it gets {number(receipts_alone)} receipts/s. The broker then holds "
        f"{idle_bytes / 2**20:.0f} MiB, with memory_budget_bytes = {budget_mib:.0f} MiB; resident is the most that it held so far."
    )
    section = Section("Neighbours", words)
    rows: list[tuple[str, ...]] = []
    for attack in attacked:
        felt = attack.felt
        what = attacks.ATTACKS[attack.name][0]
        over_ms, share = felt.ping_worst_ms - worst_alone_ms, felt.receipts_per_s / receipts_alone
        over_mib = (attack.resident_bytes - idle_bytes) / 2**20 - budget_mib
        section.figures += [
            Figure(f"{what}: worst ping over its value alone", over_ms, PING_OVER_ALONE_MS, "ms", at_least=False),
            Figure(f"{what}: throughput, of that alone", share, THROUGHPUT_SHARE),
            Figure(f"{what}: memory beyond idle and budget", over_mib, MEMORY_OVER_BUDGET_MIB, "MiB", at_least=False),
        ]
        cells = (felt.ping_p99_9_ms, felt.ping_worst_ms, felt.publish_p99_9_ms, felt.receipts_per_s, attack.resident_bytes / 2**20)
        rows.append((what, *map(number, cells), f"{felt.unanswered:,}", f"{attack.done:,}", f"{attack.cut_off:,}"))
        if not attack.done:
            section.failures.append(f"{what}: no attempt was made")
        if felt.unanswered:
            section.failures.append(f"{what}: {felt.unanswered} requests of the innocent were never answered")
    columns = (
        "attack",
        "ping p99.9, ms",
        "worst",
        "publish p99.9, ms",
        "receipts/s",
        "resident MiB",
        "unanswered",
        "attempts",
        "cut off",
    )
    section.tables.append(Table(columns, rows))
    return section
