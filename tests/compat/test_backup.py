"""A backup is taken of a running platform under stock clients, and what is restored is compared message by message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compat.backup_course import take_and_restore
from tests.support.brokers.standalone import Standalone
from tests.support.databases import other_database

pytestmark = [pytest.mark.xdist_group("platforms"), pytest.mark.standalone]


@pytest.fixture
def databases(request: pytest.FixtureRequest) -> Iterator[tuple[Mapping[str, str], Mapping[str, str]]]:
    """Settings of the platform and of the restored one. `request.param`: the settings that name a database; those with the same
    number name the same one."""
    if not request.param:
        yield {}, {}
        return
    server = request.getfixturevalue("postgresql")
    with ExitStack() as stack:
        made = [{number: stack.enter_context(other_database(server)) for number in set(request.param.values())} for _ in range(2)]
        first, second = ({f"MAGNETAR_{name}": urls[number] for name, number in request.param.items()} for urls in made)
        yield first, second


# Of messages and metadata in PostgreSQL there is one in every run, all with `make thorough`.
THOROUGH = ("metadata in PostgreSQL, log on files", "messages and metadata in two databases")
LAYOUTS = {
    "two brokers on files": ({}, ["--brokers", "2"]),
    "all in one database": ({"DATABASE_URL": 1, "METADATA_URL": 1, "LEDGER_URL": 1}, []),
    "metadata in PostgreSQL, log on files": ({"DATABASE_URL": 1, "METADATA_URL": 2}, []),
    "messages and metadata in two databases": ({"METADATA_URL": 1, "LEDGER_URL": 2}, []),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("databases", "arguments"),
    [pytest.param(*layout, id=name, marks=[pytest.mark.thorough] if name in THOROUGH else []) for name, layout in LAYOUTS.items()],
    indirect=["databases"],
)
def test_every_message_and_every_position_come_back(
    tmp_path: Path, databases: tuple[Mapping[str, str], Mapping[str, str]], arguments: list[str]
) -> None:
    first, second = databases
    platform = Standalone(tmp_path / "data", *arguments, **first)
    restored = Standalone(tmp_path / "restored", *arguments, **second)
    take_and_restore(platform, restored, tmp_path)
