"""A disk that takes nothing while the control plane speaks.

Seen: a change that could not be saved had been swapped in already, so the retry found nothing new: it was confirmed and never
reached live connections, a revoked key's among them.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from messaging.broker.runtime.broker_metrics import broker_samples
from messaging.broker.runtime.feed.store import FeedStore
from messaging.errors import InvalidValue, StorageFailed
from messaging.metrics import exposition
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import send_frame
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
REVOKED = ("key", "writer", {"role": "writer@acme", "tenant": "acme", "revoked": True})
NO_GRANT: tuple[str, str, dict[str, Any]] = ("namespace", "acme/orders", {"grants": {}})


@contextmanager
def full_disk(world: BrokerWorld) -> Iterator[None]:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FeedStore, "append", fail)
        yield


async def test_a_change_that_could_not_be_saved_is_not_confirmed_and_the_retry_does_all_of_it(world: BrokerWorld) -> None:
    writer = await world.connected("writer")
    await writer.producer(TOPIC)
    version = world.service.access.view.version
    with full_disk(world):
        for _ in range(2):
            with pytest.raises(StorageFailed, match="No space left on device"):
                await world.feed(NO_GRANT)
            assert world.service.access.view.version == version
            writer.write(send_frame(0, b"still allowed"))
            await writer.expect("SEND_RECEIPT")
    await world.feed(NO_GRANT)
    assert world.service.access.view.version == version + 1
    assert (await writer.expect("CLOSE_PRODUCER")).producer_id == 1


async def test_a_revoked_key_opens_nothing_and_keeps_nothing_while_nothing_can_be_saved(world: BrokerWorld) -> None:
    writer = await world.connected("writer")
    await writer.producer(TOPIC)
    with full_disk(world):
        with pytest.raises(StorageFailed):
            await world.feed(REVOKED)
        await writer.gone()
        again = await world.client()
        again.say(pb.Command.CONNECT, client_version="raw", auth_method_name="token", auth_data=world.token("writer").encode())
        (answer,) = await again.gone()
        assert answer.body.error == pb.AuthenticationError
    await world.feed(REVOKED)
    assert world.service.access.view.key_revoked("writer")


async def test_a_page_that_cannot_be_saved_makes_the_broker_unready(world: BrokerWorld) -> None:
    assert world.service.ready() == (True, "")
    with full_disk(world), pytest.raises(StorageFailed):
        await world.feed(NO_GRANT)
    ready, why = world.service.ready()
    assert not ready
    assert "changes of the control plane cannot be saved" in why and "No space left" in why
    text = exposition(broker_samples(world.service, private=False), private=False).decode()
    assert 'magnetar_background_failing{loop="save_feed"} 1.0' in text
    await world.feed(NO_GRANT)
    assert world.service.ready() == (True, "")


async def test_a_malformed_change_is_refused_whole_and_a_kind_of_a_newer_release_is_passed_over(world: BrokerWorld) -> None:
    view = world.service.access.view
    before = (view.version, dict(view.namespaces), dict(view.keys))
    for wrong in (
        ("namespace", "acme/orders", {"grants": ["writer@acme"]}),
        ("namespace", "acme/orders", {"policies": 5}),
        ("key", "writer", {"revoked": "no"}),
        ("tenant", "", {}),
    ):
        with pytest.raises(InvalidValue, match="malformed"):
            await world.feed(("key", "writer", {"revoked": True}), wrong)
        assert (view.version, dict(view.namespaces), dict(view.keys)) == before
    await world.feed(("galaxy", "milky way", {"stars": 10**11}), ("tenant", "new", {}))
    assert "new" in view.tenants
    text = exposition(broker_samples(world.service, private=False), private=False).decode()
    assert "magnetar_feed_changes_ignored_total 1.0" in text
    assert "magnetar_feed_pages_refused_total 4.0" in text


async def test_connections_that_could_not_be_told_are_told_before_the_next_change(world: BrokerWorld) -> None:
    """A fault of ours while telling: the change is in force, but it is not confirmed before everybody knows."""
    writer = await world.connected("writer")
    await writer.producer(TOPIC)
    told = world.service.access.feed.on_change

    def broken(changed: set[tuple[str, str]]) -> None:
        raise RuntimeError("nobody expected this")

    told.insert(0, broken)
    with pytest.raises(RuntimeError):
        await world.feed(NO_GRANT)
    told.remove(broken)
    await world.feed(("tenant", "new", {}))
    await writer.expect("CLOSE_PRODUCER")
