"""What every task receives: no task accesses the clock, the broker or the settings by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from messaging.adminrpc.calls import TypedCalls
from messaging.settings import Settings
from workers.carriers import Carriers

RPC_TIMEOUT_S = 30.0  # a maintenance batch may read much from a disk


@dataclass(frozen=True)
class Environment:
    """`stopping` is set when the process ends: a long task returns at the next step. `now` is in UTC. `carriers`: of the tasks that
    have steps; None: whoever runs one waits until it ends."""

    settings: Settings
    rpc: TypedCalls
    stopping: threading.Event = field(default_factory=threading.Event)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    carriers: Carriers | None = None


def environment_of(settings: Settings) -> Environment:
    """The real one: the broker of these settings, called under the worker's service identity. Raises `ConfigError`."""
    from messaging.adminrpc.finding import admin_rpc, choice_of

    rpc = admin_rpc(settings, "worker", choice_of(settings, "worker"), RPC_TIMEOUT_S)
    return Environment(settings, rpc)


class Stopping(Exception):
    """The worker is ending; the task is repeated, or beat's next tick does its work."""


class StoppingWithProgress(Stopping):
    """The task ends early, but has come on since it began: earlier attempts no longer count. One that takes days may meet any
    number of broker restarts."""


class Failed(Exception):
    """The work was not done, as the summary says: it is repeated if tasks of its kind are."""

    def __init__(self, summary: dict[str, Any]) -> None:
        super().__init__(str(summary))
        self.summary = summary
