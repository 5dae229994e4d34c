"""Stock clients of other languages and releases: every feature that they offer, tried by a program in their language.

The programs run side by side when the first of them is asked for. `make clients` installs what they need.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.compat.probes import CLIENTS, NOT_YET, OFFERED, Keys, Result, page, probe
from tests.compat.scenarios import Platform
from tests.support.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    folder = tmp_path_factory.mktemp("keys")
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    public, private = folder / "public.pem", folder / "private.pem"
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    )
    return Keys(str(public), str(private))


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, standalone: Standalone, client_log: Path, keys: Keys) -> dict[str, Result]:
    """What those clients said that this run is about."""
    asked = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    chosen = {name: client for name, client in CLIENTS.items() if name in asked and client.ready}
    platform = Platform(standalone.ready["broker_url"], standalone.ready["web_url"], standalone.admin_token, client_log)
    with ThreadPoolExecutor(4) as pool:
        futures = {name: pool.submit(probe, client, platform, keys) for name, client in chosen.items()}
        return {name: future.result() for name, future in futures.items()}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CLIENTS)
def test_every_feature_that_a_client_offers(results: dict[str, Result], name: str) -> None:
    if not CLIENTS[name].ready:
        pytest.skip(f"the client {name} is not installed: make clients (needs {CLIENTS[name].needs})")
    found = results[name]
    assert sorted(found.features) == sorted(OFFERED[name]), found.output
    expected = {feature: NOT_YET.get(f"{name}: {feature}", NOT_YET.get(feature, "")) for feature in found.features}
    failed = {feature: error for feature, error in found.features.items() if error and not expected[feature]}
    assert failed == {}, "these do not work"
    assert [feature for feature, error in found.features.items() if not error and expected[feature]] == [], "take them off the list"


def test_the_page_of_clients_is_up_to_date(repository: Path) -> None:
    assert (repository / "docs" / "client-matrix.md").read_text() == page(), "make docs"


def test_the_list_of_what_is_to_come_names_features() -> None:
    known = {feature for features in OFFERED.values() for feature in features}
    known |= {f"{client}: {feature}" for client, features in OFFERED.items() for feature in features}
    assert set(NOT_YET) <= known
