"""Writes down which keys were used at the broker. Each run takes what there is; what is taken and not written comes again."""

from __future__ import annotations

from typing import Any

from messaging.adminrpc.key_uses import KeyUsesTake
from messaging.adminrpc.methods import KEYS_TAKE_USES
from tenants.key_uses import record_key_uses
from workers.each_broker import at_each_broker
from workers.environment import Environment
from workers.runs import Renew


def collect_key_uses(environment: Environment, task_id: str, renew: Renew) -> dict[str, Any]:
    """Raises `MagnetarError` when the broker is away; it keeps the uses until the next run."""
    keys = 0

    def collect(broker_id: str) -> None:
        nonlocal keys
        taken = environment.rpc.call(KEYS_TAKE_USES, KeyUsesTake(broker_id=broker_id))
        left = len(taken.uses) + taken.waiting
        while taken.uses:
            renew()
            keys += record_key_uses(taken.uses)
            left -= len(taken.uses)
            taken = environment.rpc.call(KEYS_TAKE_USES, KeyUsesTake(broker_id=broker_id, acknowledged_batch=taken.batch))
            if left <= 0:  # what comes meanwhile waits for the next run
                break

    at_each_broker(environment, collect)
    return {"keys": keys}
