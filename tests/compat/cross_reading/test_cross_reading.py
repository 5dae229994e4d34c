"""The Java client and ours read what the other wrote, on our broker as on a real Pulsar, where it was recorded."""

from __future__ import annotations

import pytest

from tests.compat.cross_reading.cases import CASES
from tests.compat.cross_reading.run import JAVA, OUR_READER, THEIR_READER, Outcome, recorded, run
from tests.compat.scenarios import Platform
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]


@pytest.fixture(scope="module")
def outcome(standalone: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    if not JAVA.ready:
        pytest.skip(f"Apache's Java client is not installed: make clients (needs {JAVA.needs})")
    folder = tmp_path_factory.mktemp("keys")
    return run(Platform.of(standalone, folder / "client.log"), folder)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("direction", [OUR_READER, THEIR_READER])
@pytest.mark.parametrize("name", CASES)
def test_each_client_reads_what_the_other_wrote(outcome: Outcome, name: str, direction: str) -> None:
    assert outcome[direction][name] == [*CASES[name].texts]


@pytest.mark.parametrize("direction", [OUR_READER, THEIR_READER])
def test_a_real_pulsar_showed_the_same(direction: str) -> None:
    wanted = {name: [*case.texts] for name, case in CASES.items()}
    assert recorded()[direction] == wanted, "python -m tests.compat.cross_reading --record"
