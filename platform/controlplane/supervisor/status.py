"""What the supervisor publishes: run/supervisor.json, ready.json, and the greeting on the terminal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from controlplane.supervisor import lock
from controlplane.supervisor.machine import Child
from controlplane.supervisor.notices import timestamp
from controlplane.supervisor.plan import ChildSpec, Plan
from messaging.atomic_files import replace_file


class _Process(Protocol):
    pid: int


class Reported(Protocol):
    spec: ChildSpec
    record: Child
    last_exit: int | None
    since: float

    @property
    def exits(self) -> Iterable[float]: ...

    @property
    def process(self) -> _Process: ...


def write_json(path: Path, value: object) -> None:
    """Writes the file atomically. Raises `OSError`."""
    replace_file(path, (json.dumps(value, indent=2) + "\n").encode(), durable=False, mode=0o600)


def running_state(data_path: Path) -> dict[str, Any] | None:
    """run/supervisor.json if its supervisor is alive, else None."""
    try:
        state: dict[str, Any] = json.loads((data_path / "run" / "supervisor.json").read_bytes())
    except (OSError, ValueError):
        return None
    return state if lock.alive(int(state.get("pid", 0))) else None


def publish(path: Path, members: Sequence[Reported], ready_s: float | None) -> None:
    """`ready_s`: seconds from the command to readiness, null until then. Raises `OSError`."""
    children = [
        {
            "name": member.spec.name,
            "pid": member.process.pid,
            "state": "done" if member.record.done else member.record.state.value,
            "restarts": member.record.restarts,
            "last_exit": member.last_exit,
            "exits": [timestamp(at) for at in member.exits],
            "since": timestamp(member.since),
        }
        for member in members
    ]
    write_json(path, {"pid": os.getpid(), "ready_s": ready_s and round(ready_s, 3), "children": children})


def readiness(plan: Plan, answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The contents of ready.json."""
    ready: dict[str, Any] = {
        key: answers[child][source] for key, (child, source) in plan.ready_from.items() if answers.get(child, {}).get(source)
    }
    ready["pid"] = os.getpid()
    ready.update(plan.ready_fixed)
    return ready


def greeting(ready: Mapping[str, Any], ready_s: float, token_file: str = "") -> str:
    """`token_file`: `first_token_file` of the plan."""
    broker = ready.get("broker_url", "")
    token = f"open({token_file!r}).read().strip()"
    key = f", authentication=pulsar.AuthenticationToken({token})" if token_file else ""
    lines = [
        "",
        f"Magnetar is ready ({ready_s:.1f} s).",
        "",
        f"  Console      {ready.get('web_url', '')}",
        f"               user {ready.get('console_user', '')}, password in {ready.get('console_password_file', '')}",
        f"  Clients      {broker}",
        *([f"  with TLS     {ready['broker_url_tls']}"] if ready.get("broker_url_tls") else []),
        f"  WebSocket    {ready.get('ws_url', '')}",
        f"  Superuser    token in {ready.get('admin_token_file', '')}",
        "",
        "  First message (pip install pulsar-client):",
        "    import pulsar",
        f'    client = pulsar.Client("{broker}"{key})',
        '    client.create_producer("my-topic").send(b"hello")',
        "    client.close()",
        "",
        "  Ctrl-C stops everything. `magnetar doctor` checks the platform.",
        "",
    ]
    return "\n".join(lines) + "\n"
