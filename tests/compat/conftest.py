"""One platform for all tests here, made once a session; tests share it and use names of their own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.compat.stock import Stock
from tests.support.brokers.standalone import Standalone
from tests.support.dividing import when_the_group_ends


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    # Upkeep every second, so that what a policy promises can be seen; a Spark run only when a test asks for it.
    platform = Standalone(
        tmp_path_factory.mktemp("platform") / "data",
        MAGNETAR_EXPIRY_INTERVAL_S="1",
        MAGNETAR_AUDIT_INTERVAL_S="1",
        MAGNETAR_COMPACTION_INTERVAL_S="1",
        MAGNETAR_USAGE_JOB_INTERVAL_S="86400",
        MAGNETAR_SPARK_ROWS_MIN="0",
    )
    platform.start()
    when_the_group_ends(platform.close)
    yield platform
    platform.close()


@pytest.fixture(autouse=True)
def whole_platform(request: pytest.FixtureRequest) -> None:
    """Each test that drives a shared platform has all of it, whatever the one before left killed or standing still."""
    for name in {"standalone", "platform"} & set(request.fixturenames):
        if isinstance(shared := request.getfixturevalue(name), Standalone):
            if shared.closed:  # at the end of a group that this test is not of
                shared.start()
            shared.make_whole()


@pytest.fixture(scope="session")
def client_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C++ client would write to stdout."""
    return tmp_path_factory.mktemp("pulsar") / "client.log"


@pytest.fixture
def stock(standalone: Standalone, client_log: Path) -> Iterator[Stock]:
    """Stock clients of the platform, closed at the end of the test."""
    clients = Stock(standalone.ready["broker_url"], client_log)
    yield clients
    clients.close()


_numbers = count(1)


@pytest.fixture
def topic() -> str:
    """A topic of public/default that no other test uses."""
    return f"persistent://public/default/compat-{next(_numbers)}"


@pytest.fixture
def partitioned(standalone: Standalone) -> str:
    """A topic of three partitions."""
    name = f"parts-{next(_numbers)}"
    body = {"name": name, "partitions": 3}
    path = "/api/v1/tenants/public/namespaces/default/topics"
    assert standalone.http("POST", path, body, standalone.admin_token).status == 201
    return f"persistent://public/default/{name}"
