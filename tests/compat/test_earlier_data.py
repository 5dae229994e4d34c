"""Data directories that earlier releases wrote are opened, and hold what those releases said of them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compat.backup_world import World
from tests.compat.earlier_data import BROKERS, FOLDER, SMALL, lasting, put_back
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("platforms"), pytest.mark.standalone]
RECORDED = sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz"))


def test_there_is_one() -> None:
    assert RECORDED


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", RECORDED)
def test_data_of_an_earlier_release_is_what_it_was(tmp_path: Path, name: str) -> None:
    expected = put_back(name, tmp_path / "data")
    platform = Standalone(tmp_path / "data", *BROKERS, **SMALL)
    with ExitStack() as stack:
        stack.callback(platform.close)
        world = World(platform.start(), tmp_path)
        stack.callback(world.close)
        assert lasting(world.facts()) == expected
        world.deliveries(world.token, from_the_bin=False)
