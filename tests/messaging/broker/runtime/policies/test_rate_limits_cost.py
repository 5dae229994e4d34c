"""What rate limits cost where there are none: nothing is called."""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path
from typing import Any

from messaging.protocol import pulsar_pb2 as pb
from tests.support.brokers.virtual_broker import TOPIC, VirtualWorld, in_virtual_time

BLOCKS = 300
MODULES = ("rate_limits.py", "rate_timers.py", "publish_limits.py", "dispatch_limits.py", "service_order.py")


def calls(folder: Path, **policies: Any) -> int:
    """Of functions of rate limits, while blocks of ten messages are published, stored and delivered."""
    profile = cProfile.Profile()

    async def work(world: VirtualWorld) -> None:
        await world.set_policies(**policies)
        client = await world.producing()
        await client.subscribe(TOPIC, sub_type=pb.Subscribe.Shared)
        client.flow(1_000_000)
        client.publish(0, 10)
        await world.pass_s(1)
        profile.enable()
        for number in range(1, BLOCKS):
            client.publish(number * 10, number * 10 + 10)
            await world.pass_s(0.001)
        profile.disable()
        assert client.stored() == client.messages[1] == 10 * BLOCKS

    in_virtual_time(folder, work)
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, Any]] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return sum(found[1] for (path, _, _), found in stats.items() if Path(path).name in MODULES)


def test_no_function_of_rate_limits_is_called_where_there_are_none(tmp_path: Path) -> None:
    assert calls(tmp_path / "plain") == 0
    limited = calls(tmp_path / "limited", publish_rate_messages=10**9, dispatch_rate_messages=10**9)
    assert BLOCKS < limited < 60 * BLOCKS
