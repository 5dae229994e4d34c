"""Stock clients of other languages and releases: every feature that they offer, tried by a program in their language.

The programs run side by side when the first of them is asked for. `make clients` installs what they need.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.probes import CLIENTS, NOT_YET, OFFERED, Result, make_keys, page, probe_all, probe_tls
from tests.compat.scenarios import Platform
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]
OVER_TLS = ["Java 4.0.8", "Go 0.19.0"]


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, standalone: Standalone, client_log: Path) -> dict[str, Result]:
    """What those clients said that this run is about."""
    asked = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    chosen = {name: client for name, client in CLIENTS.items() if name in asked}
    platform = Platform.of(standalone, client_log)
    return probe_all(chosen, platform, make_keys(client_log.parent))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CLIENTS)
def test_every_feature_that_a_client_offers(results: dict[str, Result], name: str) -> None:
    if not CLIENTS[name].ready:
        pytest.skip(f"the client {name} is not installed: make clients (needs {CLIENTS[name].needs})")
    result = results[name]
    assert sorted(result.features) == sorted(OFFERED[name]), result.output
    expected = {feature: NOT_YET.get(f"{name}: {feature}", NOT_YET.get(feature, "")) for feature in result.features}
    failed = {feature: error for feature, error in result.features.items() if error and not expected[feature]}
    assert failed == {}, "these do not work"
    assert [feature for feature, error in result.features.items() if not error and expected[feature]] == [], (
        "take them off the list"
    )


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A platform with TLS on every listener."""
    folder = tmp_path_factory.mktemp("secure") / "data"
    platform = Standalone(folder, "--tls", "self-signed", MAGNETAR_BROKER_TLS_PORT="0").start()
    yield platform
    platform.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", OVER_TLS)
def test_clients_connect_over_tls_to_whom_they_trust(secure: Standalone, name: str) -> None:
    """The stock Python client does in test_lifecycle.py."""
    client = CLIENTS[name]
    if not client.ready:
        pytest.skip(f"the client {name} is not installed: make clients (needs {client.needs})")
    url, authority = secure.ready["broker_url_tls"], str(secure.folder / "tls" / "ca.pem")
    found = probe_tls(client, url, secure.admin_token, authority)
    assert found.features == {"produce_and_consume": ""}, found.output
    refused = probe_tls(client, url, secure.admin_token, "")
    assert refused.features["produce_and_consume"], "who does not trust us gets nowhere"


def test_the_page_of_clients_is_up_to_date(repository: Path) -> None:
    assert (repository / "docs" / "client-matrix.md").read_text() == page(), "make docs"


def test_the_list_of_what_is_to_come_names_features() -> None:
    known = {feature for features in OFFERED.values() for feature in features}
    known |= {f"{client}: {feature}" for client, features in OFFERED.items() for feature in features}
    assert set(NOT_YET) <= known
