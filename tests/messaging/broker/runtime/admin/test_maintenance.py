"""Maintenance of a broker that was told no policies yet, as after a restore, or at the first start of another broker of a fleet."""

from __future__ import annotations

import pytest

from messaging.adminrpc.maintenance import MaintenanceRun
from messaging.adminrpc.topics import TopicRef
from messaging.errors import NotReady
from tests.support.clients.consuming import TOPIC, filled
from tests.support.worlds.broker_world import BrokerWorld


async def test_nothing_is_deleted_before_policies_are_known(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """It retained nothing by default, and deleted what a namespace retains for years."""
    await filled(world, 3)
    monkeypatch.setattr(world.service.access.view, "version", 0)
    result = await world.admin.maintenance.run(MaintenanceRun(topics=[TOPIC], task_id="1"))
    assert list(result.failed) == [TOPIC] and "no policies yet" in result.failed[TOPIC]
    assert result.trimmed_ledgers == result.expired_entries == 0
    with pytest.raises(NotReady, match="nothing is deleted before"):
        await world.admin.maintenance.trim(TopicRef(topic=TOPIC))
