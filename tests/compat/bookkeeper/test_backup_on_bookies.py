"""A backup of two brokers on real bookies, under stock clients, is restored into another BookKeeper, and every message compared."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.compat.admin import chapters, load_recorded, replay
from tests.compat.backup_course import take_and_restore
from tests.compat.scenarios import Platform
from tests.support.bookkeeper import install
from tests.support.bookkeeper.cluster import Cluster, running_cluster
from tests.support.brokers.standalone import Standalone
from tests.support.databases import other_database

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("bookkeeper"),
    pytest.mark.skipif(not install.ready(), reason=f"no bookies: {install.NEEDED}"),
]


def on_bookies(cluster: Cluster, metadata_url: str) -> dict[str, str]:
    return {
        "MAGNETAR_LEDGER_URL": f"bookkeeper://{cluster.hosts}/ledgers",
        "MAGNETAR_MESSAGE_BYTES_MAX": str(1 << 20),
        "MAGNETAR_METADATA_URL": metadata_url,
    }


def bookies_are_told_to_pulsars_tool(cluster: Cluster, platform: Standalone, folder: Path) -> None:
    """What `pulsar-admin bookies` asks is answered as by a real Pulsar, where messages are on bookies. Elsewhere it is refused
    (`tests/compat/admin/ours.toml`)."""
    chosen = {name: [step for step in steps if step.startswith("bookies ")] for name, steps in chapters().items()}
    chosen = {name: steps for name, steps in chosen.items() if steps}
    assert sum(map(len, chosen.values())) == 5
    found = replay(chosen, load_recorded(), Platform.of(platform, folder / "tool.log"), set())
    assert len(found) == 5 and not any(found.values()), found
    listed = platform.http("GET", "/admin/v2/bookies/all", token=platform.admin_token).json()
    assert {each["bookieId"] for each in listed["bookies"]} == set(cluster.names)


@pytest.mark.timeout(600)
def test_every_message_and_every_position_come_back(real_cluster: Cluster, tmp_path: Path, postgresql: str) -> None:
    with running_cluster(tmp_path / "other", 3) as other, other_database(postgresql) as one, other_database(postgresql) as two:
        platform = Standalone(tmp_path / "data", "--brokers", "2", **on_bookies(real_cluster, one))
        restored = Standalone(tmp_path / "restored", "--brokers", "2", **on_bookies(other, two))
        asked = partial(bookies_are_told_to_pulsars_tool, real_cluster, folder=tmp_path)
        said = take_and_restore(platform, restored, tmp_path, asked)
    assert said["kept"]["messages"] == "bookkeeper" and said["brokers"] == 2
    print(f"two brokers on bookies were held for {said['held_ms']} ms")
    assert not list((tmp_path / "restored").glob("broker*/log")), "nothing of it is on this machine"
