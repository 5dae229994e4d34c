"""Configuration: variables over file over defaults; whatever is wrong is named, with where it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from messaging.settings import OTHER_VARIABLES, ConfigError, Settings, default_data_dir, load


def test_defaults() -> None:
    assert load({}) == Settings()
    assert load({"HOME": "/x", "PATH": "y"}) == Settings()


def test_variables_are_read_by_type() -> None:
    settings = load(
        {
            "MAGNETAR_BROKER_PORT": "0",
            "MAGNETAR_ANONYMOUS_PUBLIC": "false",
            "MAGNETAR_SUPERUSER_ROLES": "admin, root,,",
            "MAGNETAR_DURABILITY": "lose-on-crash",
            "MAGNETAR_CLUSTER_NAME": "east",
        }
    )
    assert settings.broker_port == 0
    assert settings.anonymous_public is False
    assert settings.superuser_roles == ("admin", "root")
    assert settings.durability == "lose-on-crash"
    assert settings.cluster_name == "east"


def test_variables_win_over_the_file_and_overrides_over_both(tmp_path: Path) -> None:
    file = tmp_path / "magnetar.toml"
    file.write_text('broker_port = 1\nweb_port = 1\nws_port = 1\nsuperuser_roles = ["a", "b"]\n')
    settings = load({"MAGNETAR_CONFIG": str(file), "MAGNETAR_WEB_PORT": "2", "MAGNETAR_WS_PORT": "2"}, ws_port=3, host=None)
    assert (settings.broker_port, settings.web_port, settings.ws_port, settings.host) == (1, 2, 3, "127.0.0.1")
    assert settings.superuser_roles == ("a", "b")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("MAGNETAR_BROKER_PORT", "70000", ["broker_port", "70000", "MAGNETAR_BROKER_PORT"]),
        ("MAGNETAR_BROKER_PORT", "-1", ["broker_port"]),
        ("MAGNETAR_BROKER_PORT", "many", ["broker_port", "many"]),
        ("MAGNETAR_DURABILITY", "fast", ["durability", "fast"]),
        ("MAGNETAR_RETENTION_TIME_MIN", "-2", ["retention_time_min"]),
        ("MAGNETAR_CONNECTIONS_MAX", "0", ["connections_max"]),
        ("MAGNETAR_MEMORY_BUDGET_BYTES", "1", ["memory_budget_bytes"]),
        ("MAGNETAR_MESSAGE_BYTES_MAX", str(200 << 20), ["memory_budget_bytes", "message_bytes_max"]),
        ("MAGNETAR_TLS", "files", ["tls_cert_file", "tls_key_file"]),
        ("MAGNETAR_BROKER_PROT", "1", ["MAGNETAR_BROKER_PROT", "MAGNETAR_BROKER_PORT"]),
        ("MAGNETAR_", "1", ["MAGNETAR_"]),
    ],
)
def test_a_malformed_variable_is_named(name: str, value: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load({name: value})
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("broker_prot = 1", ["broker_prot", "broker_port"]),
        ("broker_port = 70000", ["broker_port", "70000"]),
        ("not toml", ["TOML"]),
    ],
)
def test_a_malformed_setting_in_a_file_is_named(tmp_path: Path, text: str, words: list[str]) -> None:
    file = tmp_path / "magnetar.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load({"MAGNETAR_CONFIG": str(file)})
    for word in [*words, str(file)]:
        assert word in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml"):
        load({"MAGNETAR_CONFIG": str(tmp_path / "absent.toml")})


def test_variables_of_the_tests_are_no_settings() -> None:
    assert load(dict.fromkeys(OTHER_VARIABLES - {"MAGNETAR_CONFIG"}, "x")) == Settings()


@pytest.mark.parametrize(
    ("host", "advertised", "told"),
    [
        ("127.0.0.1", "", "127.0.0.1"),
        ("0.0.0.0", "", "127.0.0.1"),
        ("::", "", "127.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("0.0.0.0", "broker.example", "broker.example"),
    ],
)
def test_clients_are_told_the_advertised_host_or_that_of_the_listener(host: str, advertised: str, told: str) -> None:
    assert Settings(host=host, advertised_host=advertised).client_host == told


@pytest.mark.parametrize(
    ("host", "tls", "bound"),
    [
        ("127.0.0.1", "off", "127.0.0.1"),
        ("0.0.0.0", "off", "0.0.0.0"),
        ("127.0.0.1", "self-signed", "127.0.0.1"),
        ("::1", "self-signed", "::1"),
        ("0.0.0.0", "self-signed", "127.0.0.1"),
        ("::", "self-signed", "127.0.0.1"),
        ("messages.example", "self-signed", "127.0.0.1"),
    ],
)
def test_with_tls_nobody_else_speaks_in_the_clear(host: str, tls: Literal["off", "self-signed"], bound: str) -> None:
    assert Settings(host=host, tls=tls).plain_host == bound


def test_settings_do_not_change() -> None:
    with pytest.raises(AttributeError):
        Settings().broker_port = 1  # type: ignore[misc]


def test_data_follows_the_users_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data/of/mine")
    assert default_data_dir() == "/data/of/mine/magnetar"


def test_a_redis_url_is_that_of_a_server() -> None:
    for url in ("redis://h:1/2", "rediss://h", "unix:///s.sock", "redis+socket:///s.sock"):
        assert load({}, redis_url=url).redis_url == url
    with pytest.raises(ConfigError, match=r"redis_url = http://\.\.\. is not the URL") as refused:
        load({}, redis_url="http://user:secret@h")
    assert "secret" not in str(refused.value)


INTERNAL: dict[str, str] = {
    "internal_tls_cert_file": "{service}.pem",
    "internal_tls_key_file": "{service}.key",
    "internal_tls_ca_file": "ca.pem",
}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"broker_rpc_host": "0.0.0.0"}, ["broker_rpc_host", "0.0.0.0", *INTERNAL]),
        ({"broker_rpc_host": ""}, ["broker_rpc_host", *INTERNAL]),
        ({"web_internal_host": "10.0.0.1"}, ["web_internal_host", "10.0.0.1", *INTERNAL]),
        ({"broker_rpc_url": "http://broker.example:7000"}, ["broker_rpc_url", "broker.example", *INTERNAL]),
        ({"broker_rpc_url": "https://127.0.0.1:7000"}, ["broker_rpc_url", *INTERNAL]),
        ({"broker_rpc_url": "http://127.0.0.1:7000,http://broker.example:7000"}, ["broker_rpc_url", "broker.example", *INTERNAL]),
        ({"broker_rpc_url": "https://a:1 https://b:1", **INTERNAL}, ["broker_rpc_url", "host and port only"]),
        ({"broker_rpc_url": ",".join(f"http://127.0.0.1:{port}" for port in range(1, 18))}, ["broker_rpc_url", "17", "16"]),
        ({"broker_rpc_url": "http://127.0.0.1:7000", **INTERNAL}, ["broker_rpc_url", "https://"]),
        ({"web_internal_url": "http://web.example:8080"}, ["web_internal_url", "web.example", *INTERNAL]),
        ({"internal_tls_cert_file": "broker.pem"}, list(INTERNAL)),
        ({"tls_client_crl_file": "revoked.pem"}, ["tls_client_crl_file", "tls_client_ca_file"]),
    ],
)
def test_between_our_processes_nothing_leaves_the_machine_in_the_clear(values: dict[str, str], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings(**values)  # type: ignore[arg-type]
    for word in words:
        assert word in str(caught.value)


def test_with_certificates_our_processes_may_be_on_several_machines() -> None:
    apart = {"broker_rpc_host": "0.0.0.0", "web_internal_host": "::", "broker_rpc_url": "https://broker.example:7000"}
    assert Settings(**apart, **INTERNAL, web_internal_url="https://web.example:7001").internal_tls  # type: ignore[arg-type]
    assert not Settings(broker_rpc_url="http://127.0.0.1:7000", broker_rpc_host="::1").internal_tls
