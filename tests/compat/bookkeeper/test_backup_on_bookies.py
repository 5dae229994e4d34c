"""A backup of two brokers on real bookies, under stock clients, is restored into another BookKeeper, and every message compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.backup_course import take_and_restore
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


@pytest.mark.timeout(600)
def test_every_message_and_every_position_come_back(real_cluster: Cluster, tmp_path: Path, postgresql: str) -> None:
    with running_cluster(tmp_path / "other", 3) as other, other_database(postgresql) as one, other_database(postgresql) as two:
        platform = Standalone(tmp_path / "data", "--brokers", "2", **on_bookies(real_cluster, one))
        restored = Standalone(tmp_path / "restored", "--brokers", "2", **on_bookies(other, two))
        said = take_and_restore(platform, restored, tmp_path)
    assert said["kept"]["messages"] == "bookkeeper" and said["brokers"] == 2
    print(f"two brokers on bookies were held for {said['held_ms']} ms")
    assert not list((tmp_path / "restored").glob("broker*/log")), "nothing of it is on this machine"
