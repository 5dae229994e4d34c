"""Work that is done at each broker of a fleet."""

from __future__ import annotations

from collections.abc import Callable

from messaging.adminrpc.base import Request
from messaging.adminrpc.methods import BROKERS_LIST
from messaging.errors import MagnetarError
from workers.environment import Environment


def at_each_broker(environment: Environment, act: Callable[[str], None]) -> None:
    """`act` with the id of each. One that is away holds up none of the others; then its error is raised."""
    failed: MagnetarError | None = None
    for broker in environment.rpc.call(BROKERS_LIST, Request()).brokers:
        try:
            act(broker.broker_id)
        except MagnetarError as error:
            failed = failed or error
    if failed is not None:
        raise failed
