"""Keys of our own processes: rotated and retired while everybody goes on."""

from __future__ import annotations

import time

import pytest

from messaging.errors import AuthenticationFailed
from messaging.identity import ServiceVerifier, make_service_token, secrets_path, service_keys
from messaging.identity.files import private_key
from messaging.settings import ConfigError, Settings
from tests.messaging.identity.keys import NOW_MS, NOW_S


def token_of(settings: Settings, name: str) -> str:
    return make_service_token(private_key(secrets_path(settings) / "identity" / f"{name}.key"), name, NOW_S)


def test_the_new_key_counts_at_once_and_the_former_one_until_it_is_retired(settings: Settings) -> None:
    clock_s = [time.monotonic()]
    verifier = ServiceVerifier.from_settings(settings, lambda: clock_s[0])
    before = token_of(settings, "web")
    (former,) = service_keys.service_keys(settings, "web")
    made = service_keys.rotate(settings, "web")
    after = token_of(settings, "web")
    assert service_keys.service_keys(settings, "web") == [made, former]
    assert verifier.verify(after, NOW_MS).role == "service:web"  # a running process looks again for a token that it does not know
    assert verifier.verify(before, NOW_MS).role == "service:web"
    assert service_keys.retire(settings, "web") == 1
    assert service_keys.service_keys(settings, "web") == [made]
    clock_s[0] += 1.1
    with pytest.raises(AuthenticationFailed):
        verifier.verify(before, NOW_MS)
    assert verifier.verify(after, NOW_MS).role == "service:web"
    assert verifier.verify(token_of(settings, "worker"), NOW_MS).role == "service:worker"
    assert {path.stat().st_mode & 0o777 for path in secrets_path(settings).rglob("*") if path.is_file()} == {0o600}


def test_a_key_of_another_process_gives_no_name(settings: Settings) -> None:
    verifier = ServiceVerifier.from_settings(settings)
    service_keys.rotate(settings, "worker")
    forged = make_service_token(private_key(secrets_path(settings) / "identity" / "worker.key"), "web", NOW_S)
    with pytest.raises(AuthenticationFailed):
        verifier.verify(forged, NOW_MS)


def test_a_file_of_keys_that_cannot_be_read_changes_nothing(settings: Settings) -> None:
    clock_s = [time.monotonic()]
    verifier = ServiceVerifier.from_settings(settings, lambda: clock_s[0])
    (secrets_path(settings) / "identity" / "web.pub").write_text("half a key")
    clock_s[0] += 2
    assert verifier.verify(token_of(settings, "web"), NOW_MS).service


def test_what_cannot_be_rotated(settings: Settings) -> None:
    for _ in range(service_keys.KEYS_MAX - 1):
        service_keys.rotate(settings, "worker")
    with pytest.raises(ConfigError, match="retire-service worker"):
        service_keys.rotate(settings, "worker")
    with pytest.raises(ConfigError, match="web, worker, broker, cli"):
        service_keys.rotate(settings, "../../web")
    (secrets_path(settings) / "identity" / "web.key").unlink()
    for change in (service_keys.rotate, service_keys.retire):
        with pytest.raises(ConfigError, match=r"web\.key"):
            change(settings, "web")
