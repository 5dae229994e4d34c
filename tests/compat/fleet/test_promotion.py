"""A fleet whose PostgreSQL has a synchronous standby: the primary is killed under load of stock clients and the standby promoted,
which the URL with both hosts finds. Nothing that was confirmed is lost."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from tests.compat.fleet.campaign import Campaign
from tests.compat.fleet.platforms import OneMachine
from tests.support.bookkeeper.cluster import free_port
from tests.support.postgresql_server import NEEDED, STAND_BY, PostgresqlServer, installed
from tests.support.waiting import eventually_sync

pytestmark = [
    pytest.mark.crash,
    pytest.mark.xdist_group("platforms"),
    pytest.mark.skipif(not installed(), reason=f"no PostgreSQL: {NEEDED}"),
]


class Pair:
    """A primary, and the standby that each of its commits waits for."""

    def __init__(self, folder: Path) -> None:
        self.primary, self.standby = (PostgresqlServer(folder / name, free_port(), "127.0.0.1") for name in ("one", "two"))
        self.confirmed_by_a_standby = False

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in (self.primary, self.standby))
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def start(self) -> None:
        self.primary.create()
        self.primary.start()
        self.standby.copy(self.primary)
        self.standby.start()
        self.primary.configure(f"synchronous_standby_names = '{STAND_BY}'")
        with self.primary.connect() as connection:
            connection.execute("select pg_reload_conf()")
            eventually_sync(lambda: _state(connection) == "sync", 30)

    def close(self) -> None:
        for server in (self.primary, self.standby):
            server.close()

    def fail_over(self, campaign: Campaign) -> None:
        self._lose_the_standby(campaign)
        self._promote(campaign)

    def _promote(self, campaign: Campaign) -> None:
        begun_s = time.monotonic()
        self.primary.crash()
        campaign.wait(campaign.chance.uniform(0, 3))
        self.standby.promote()
        campaign.again(begun_s)

    def _lose_the_standby(self, campaign: Campaign) -> None:
        """Commits wait for it, so nothing is confirmed meanwhile."""
        self.standby.stop("immediate")
        with suppress(psycopg.Error), self.primary.connect() as connection:
            eventually_sync(
                lambda: connection.execute("select 1 from pg_stat_activity where wait_event = 'SyncRep'").fetchone(), 30
            )
        campaign.wait(1)  # what was confirmed before is with the clients by then
        receipts = _stored(campaign)
        campaign.wait(2)
        assert _stored(campaign) == receipts, "something was confirmed that is on one server only"
        self.standby.start()
        campaign.again(time.monotonic())


def _stored(campaign: Campaign) -> int:
    return sum(len(publisher.receipts) for publisher in campaign.publishers if publisher.persistent)


def _state(connection: psycopg.Connection[tuple[object, ...]]) -> object:
    row = connection.execute("select sync_state from pg_stat_replication").fetchone()
    return row and row[0]


@contextmanager
def running_pair() -> Iterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="magnetar-pair-"))  # where the user `postgres` comes to
    folder.chmod(0o755)
    pair = Pair(folder)
    try:
        pair.start()
        yield pair
    finally:
        pair.close()
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_standby_that_is_promoted_has_all_that_was_confirmed(tmp_path: Path) -> None:
    with running_pair() as pair:
        urls = {f"MAGNETAR_{name}_URL": pair.url for name in ("METADATA", "LEDGER")}
        platform = OneMachine(tmp_path / "data", 2, **urls)
        campaign = Campaign(platform, tmp_path, 5, faults={pair.fail_over: 1})
        await campaign.run(1)
        assert campaign.receipts and campaign.acknowledged
