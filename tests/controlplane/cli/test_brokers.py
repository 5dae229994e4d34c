"""`magnetar brokers`: what is asked of a broker, what the audit log says, and what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controlplane.gone_brokers import forget_broker, recover_broker
from messaging.adminrpc.base import Empty, Method
from messaging.adminrpc.brokers import BrokerForgotten, GoneBroker, RecoverBroker
from messaging.adminrpc.bundles import BrokerDrained, Drained
from messaging.adminrpc.calls import TypedCalls
from messaging.errors import Conflict, NotAllowed, NotAuthorized, NotReady
from messaging.permissions.model import Principal
from tenants import broker
from tenants.access import Actor, platform_actor
from tenants.actions.brokers import drain_broker
from tenants.models import AuditRecord
from tests.controlplane.cli.command_line import magnetar, refused

pytestmark = pytest.mark.django_db(transaction=True)


class Asked(TypedCalls):
    def __init__(self) -> None:
        self.requests: list[object] = []

    def perform(self, method: Method[Any, Any], request: Any) -> Any:
        self.requests.append(request)
        if isinstance(request, BrokerDrained):
            if request.broker_id == "pinned":
                raise NotAllowed("bundles stay with the broker in whose log their messages lie")
            if request.broker_id == "silent":
                raise NotReady("broker silent does not answer")
            return Drained(left=0 if request.ends or request.broker_id == "m1" else 2)
        if isinstance(request, RecoverBroker):
            return Empty()
        if request.gone_broker_id == "alive":
            raise Conflict("broker alive is alive: stop it first")
        if request.gone_broker_id == "silent":
            raise NotReady("broker silent does not answer")
        return BrokerForgotten(bundles=3, ledgers=2, length_bytes=10)


@pytest.fixture
def asked() -> Any:
    calls = Asked()
    broker.use(calls)
    yield calls
    broker.use(None)


def records() -> list[tuple[str, str, str, object]]:
    return list(AuditRecord.unscoped.order_by("-id").values_list("role", "action", "resource", "after")[:1])


def test_who_accepts_a_loss_is_in_the_audit_log(asked: Asked) -> None:
    recover_broker(platform_actor("service:cli"), "m2", accept_loss=True)
    assert asked.requests == [RecoverBroker(gone_broker_id="m2", accept_loss=True)]
    assert records() == [("service:cli", "broker.recover", "m2", {"accept_loss": True})]


def test_a_broker_is_forgotten_once_it_is_gone(asked: Asked) -> None:
    assert forget_broker(platform_actor("service:cli"), "m2").bundles == 3
    assert asked.requests == [GoneBroker(gone_broker_id="m2")]
    assert records() == [("service:cli", "broker.forget", "m2", {"bundles": 3, "ledgers": 2, "length_bytes": 10})]


def test_a_broker_that_is_not_forgotten_is_not_in_the_audit_log_as_forgotten(asked: Asked) -> None:
    with pytest.raises(Conflict):
        forget_broker(platform_actor("service:cli"), "alive")
    assert not records()
    with pytest.raises(NotReady):
        forget_broker(platform_actor("service:cli"), "silent")
    assert records() == [("service:cli", "broker.forget", "silent", {"not_confirmed": "broker silent does not answer"})]


def test_a_broker_is_drained_and_takes_bundles_again(asked: Asked) -> None:
    assert [drain_broker(platform_actor("service:cli"), name) for name in ("m1", "m2")] == [0, 2]
    assert records() == [("service:cli", "broker.drain", "m2", {"bundles_left": 2})]
    assert drain_broker(platform_actor("service:cli"), "m2", ends=True) == 0
    assert asked.requests[-1] == BrokerDrained(broker_id="m2", ends=True)
    assert records()[0][:3] == ("service:cli", "broker.end_drain", "m2")


def test_a_drain_that_is_refused_is_not_in_the_audit_log(asked: Asked) -> None:
    with pytest.raises(NotAllowed):
        drain_broker(platform_actor("service:cli"), "pinned")
    assert not records()
    with pytest.raises(NotReady):
        drain_broker(platform_actor("service:cli"), "silent")
    assert records() == [("service:cli", "broker.drain", "silent", {"not_confirmed": "broker silent does not answer"})]


def test_only_the_platform_may(asked: Asked) -> None:
    for act in (
        lambda actor: recover_broker(actor, "m2", accept_loss=True),
        lambda actor: forget_broker(actor, "m2"),
        lambda actor: drain_broker(actor, "m2"),
        lambda actor: drain_broker(actor, "m2", ends=True),
    ):
        with pytest.raises(NotAuthorized):
            act(Actor(Principal("user:ada")))
    assert not asked.requests


def test_without_a_broker_it_says_so(tmp_path: Path) -> None:
    for command in (["forget", "m2"], ["drain", "m2"], ["drain", "m2", "--end"]):
        assert "broker" in refused(magnetar("brokers", *command, "--data-dir", str(tmp_path)))
