"""Brokers of two machines that keep messages in one database and metadata in another are held together."""

from __future__ import annotations

import shutil
from pathlib import Path

from controlplane.backup.restore import verify
from controlplane.backup.take import take
from tests.benchmarks.real_broker import RealBroker
from tests.support.databases import other_database


def test_those_of_other_machines_are_held_where_no_transaction_reads_all(
    metadata_url: str, postgresql: str, tmp_path: Path
) -> None:
    """Only those of the machine of the backup were held: messages of the others could be of another moment than their positions."""
    brokers: list[RealBroker] = []
    with other_database(postgresql) as ledger_url:
        try:
            for name in ("one", "two"):
                (tmp_path / name).mkdir()
                if brokers:
                    shutil.copytree(tmp_path / "one" / "secrets", tmp_path / name / "secrets")
                brokers.append(RealBroker(tmp_path / name, metadata_url=metadata_url, ledger_url=ledger_url, broker_id=name))
            said = verify(take(brokers[1].settings, tmp_path / "backups"))
            assert said.brokers == 2 and said.held_ms > 0
        finally:
            for broker in brokers:
                broker.close()
