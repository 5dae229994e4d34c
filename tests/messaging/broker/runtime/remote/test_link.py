"""A link to another broker that does not read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messaging.broker.runtime.remote import link as remote_link
from messaging.broker.runtime.remote.link import BrokerLink
from messaging.errors import MagnetarError, NotReady
from messaging.protocol import pulsar_pb2 as pb
from tests.support.waiting import eventually


class Stuck(asyncio.Transport):
    """Nothing that is written to it leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.unsent = 0
        self.aborted = False

    def write(self, data: Any) -> None:
        self.unsent += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def close(self) -> None:
        """It waits for what is unsent."""

    def abort(self) -> None:
        self.aborted, self.unsent = True, 0


class End:
    def __init__(self) -> None:
        self.error: MagnetarError | None = None

    def received(self, command: pb.Command, rest: bytes) -> None:
        raise AssertionError("nothing comes")

    def lost(self, error: MagnetarError) -> None:
        self.error = error


def stuck_link(keep_alive_s: float = 60.0) -> tuple[BrokerLink, Stuck, End]:
    link, transport, end = BrokerLink(pb.Connect(client_version="test"), 1 << 20, keep_alive_s, lambda: None), Stuck(), End()
    link.connection_made(transport)
    link.consumers[1] = end
    return link, transport, end


def acknowledges(link: BrokerLink) -> None:
    """As a consumer does it: nobody waits for an answer, so nobody else bounds what waits."""
    link.check_unsent()
    link.write(b"a frame with an acknowledgement" * 10)


async def test_a_client_piles_up_no_more_than_a_limit_for_a_broker_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_link, "UNSENT_BYTES_MAX", 10_000)
    link, transport, end = stuck_link()
    for _ in range(10_000):
        if transport.aborted:
            break
        acknowledges(link)
        assert transport.unsent <= 11_000
    assert isinstance(end.error, NotReady) and transport.aborted and not link.usable
    acknowledges(link)
    assert not transport.unsent


async def test_what_a_broker_that_does_not_answer_has_not_read_is_dropped() -> None:
    link, transport, end = stuck_link(keep_alive_s=0.01)
    link.write(b"message")
    await eventually(lambda: transport.aborted)
    assert isinstance(end.error, NotReady) and not link.usable


async def test_a_link_that_is_given_up_while_it_is_dialled_leaves_no_connection() -> None:
    link, transport = BrokerLink(pb.Connect(client_version="test"), 1 << 20, 60.0, lambda: None), Stuck()
    link.give_up("it does not answer")
    link.connection_made(transport)
    assert transport.aborted and not transport.unsent
