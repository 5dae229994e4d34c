"""Failures in the work that a broker does once after its start, and repeats until it succeeds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from messaging.broker.runtime.metering.setup import meter_stored_topics
from tests.support.raising import boom
from tests.support.waiting import eventually

Fail = Callable[[Any, pytest.MonkeyPatch], Awaitable[None]]


def _work(broker: Any) -> dict[str, Any]:
    return {
        "finish_partitioned_topics": broker.topics.partitioned.finish_interrupted,
        "meter_stored_topics": partial(meter_stored_topics, broker),
        "read_stored_problems": broker.stored_problems.read,
    }


def once_after_start(name: str, method: str) -> Fail:
    """Where `method` of the metadata raises, `name` waits and tries again."""

    async def fail(at: Any, patch: pytest.MonkeyPatch) -> None:
        broker = at.broker
        with patch.context() as patched:
            patched.setattr(broker.storage.meta, method, boom)
            task = broker.background.until_done(name, _work(broker)[name])
            await eventually(lambda: at.turns.slept[name] == 1)
        at.turns.waiting[name].set()
        await task

    return fail
