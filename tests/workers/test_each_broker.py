"""Work at each broker of a fleet: one that is away holds up none of the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from messaging.adminrpc.brokers import BrokerSeen, BrokersSeen
from messaging.errors import NotReady
from workers.each_broker import at_each_broker
from workers.environment import Environment


def environment(*ids: str) -> Environment:
    brokers = [BrokerSeen(broker_id=broker_id, live=True, broker_url="") for broker_id in ids]
    answers: Any = SimpleNamespace(call=lambda method, request: BrokersSeen(brokers=brokers))
    return cast(Environment, SimpleNamespace(rpc=answers))


def test_one_that_is_away_holds_up_none_of_the_others() -> None:
    done = []

    def act(broker_id: str) -> None:
        if broker_id == "b2":
            raise NotReady("broker b2 is not running")
        done.append(broker_id)

    with pytest.raises(NotReady, match="b2"):
        at_each_broker(environment("b1", "b2", "b3"), act)
    assert done == ["b1", "b3"]
    at_each_broker(environment("b1", "b3"), act)
    assert done == ["b1", "b3", "b1", "b3"]
