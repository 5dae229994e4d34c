"""The web process as the supervisor runs it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from messaging.broker.runtime.feed.client import fetch
from messaging.identity import create_secrets, read_secret, service_token
from messaging.settings import Settings
from tests.support.process_certificates import ProcessCertificates
from tests.support.waiting import eventually_sync


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One directory for all: the first of them prepares the database."""
    path = tmp_path_factory.mktemp("web")
    create_secrets(Settings(data_dir=str(path)))
    return path


@contextmanager
def running(data_dir: Path, **variables: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAGNETAR_", "DJANGO_"))}
    environment |= {"MAGNETAR_DATA_DIR": str(data_dir), "MAGNETAR_WEB_PORT": "0", **variables}
    announcement = data_dir / "run" / "web.json"
    process = subprocess.Popen([sys.executable, "-P", "-m", "controlplane.web"], env=environment, stderr=subprocess.PIPE)
    try:
        eventually_sync(lambda: announcement.exists() or process.poll() is not None, 60)
        yield process, json.loads(announcement.read_text()) if announcement.exists() else {}
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
        announcement.unlink(missing_ok=True)


def get(url: str, token: str = "", context: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20, context=context) as response:
        return response.status, response.read()


def test_it_serves_on_a_free_port_and_stops_cleanly(data_dir: Path) -> None:
    settings = Settings(data_dir=str(data_dir))
    with running(data_dir) as (process, announced):
        assert announced["pid"] == process.pid
        assert announced["web_url"] == announced["internal_url"]
        assert get(f"{announced['web_url']}/readyz") == (200, b"ok\n")
        assert json.loads(get(f"{announced['web_url']}/admin/v2/tenants", read_secret(settings, "superuser.token"))[1]) == [
            "public"
        ]
        feed = json.loads(get(f"{announced['internal_url']}/internal/v1/feed?since=0", service_token(settings, "broker"))[1])
        assert {(change["kind"], change["key"]) for change in feed["changes"]} == {
            ("tenant", "public"),
            ("namespace", "public/default"),
            ("key", "superuser-1"),
        }
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert not (data_dir / "run" / "web.json").exists()
        logged = process.stderr.read().decode() if process.stderr else ""
        assert '"event":"web.ready"' in logged
        assert read_secret(settings, "superuser.token") not in logged


def test_with_tls_brokers_come_in_by_loopback(data_dir: Path) -> None:
    with running(data_dir, MAGNETAR_TLS="self-signed") as (process, announced):
        assert announced["web_url"].startswith("https://")
        assert announced["internal_url"].startswith("http://127.0.0.1:")
        certificate = data_dir / "tls" / "ca.pem"
        trusting = ssl.create_default_context(cafile=certificate if certificate.exists() else data_dir / "tls" / "cert.pem")
        assert get(f"{announced['web_url']}/healthz", context=trusting) == (200, b"ok\n")
        with pytest.raises(urllib.error.URLError):
            get(f"{announced['web_url']}/healthz", context=ssl.create_default_context())
        assert get(f"{announced['internal_url']}/healthz") == (200, b"ok\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


def test_with_certificates_brokers_come_in_by_theirs(data_dir: Path, tmp_path: Path) -> None:
    certificates = ProcessCertificates(tmp_path)
    settings = Settings(data_dir=str(data_dir), **certificates.settings)  # type: ignore[arg-type]
    variables = {f"MAGNETAR_{name.upper()}": value for name, value in certificates.settings.items()}
    with running(data_dir, **variables) as (process, announced):
        assert announced["web_url"].startswith("http://")
        assert announced["internal_url"].startswith("https://127.0.0.1:")
        assert {change.kind for change in fetch(settings, 0, "", "").changes} >= {"tenant", "namespace", "key"}
        with pytest.raises(urllib.error.HTTPError, match="401"):  # the token alone, on the listener for everybody
            get(f"{announced['web_url']}/internal/v1/feed?since=0", service_token(settings, "broker"))
        certificates.issue("broker", common_name="worker")
        with pytest.raises(OSError, match="returned 401"):
            fetch(settings, 0, "", "")
        certificates.issue("broker", authority=trustme.CA())
        with pytest.raises(OSError):
            fetch(settings, 0, "", "")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_a_port_in_use_is_named(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running(data_dir, MAGNETAR_WEB_PORT=str(port)) as (process, announced):
            assert process.wait(30) != 0
            assert not announced
            assert f"web_port = {port} is in use".encode() in (process.stderr.read() if process.stderr else b"")


def test_a_web_process_carries_neither_rest_framework_nor_celery_until_asked(data_dir: Path) -> None:
    code = """
import sys
from controlplane import current, web
from messaging.settings import load
current.use(load())
from controlplane.asgi import application
from django.urls import get_resolver
get_resolver().url_patterns
import workers.queue, workers.requests
sys.exit(", ".join({"rest_framework", "drf_spectacular", "celery", "channels_redis", "pyspark", "rich"} & set(sys.modules)) or 0)
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAGNETAR_", "DJANGO_"))}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**environment, "MAGNETAR_DATA_DIR": str(data_dir)}, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_live_page_is_not_ended_by_a_socket_timeout(data_dir: Path) -> None:
    """redis-py 8 gives every socket a timeout of 5 s, which ends a Channels consumer that waits longer. So: the version below it,
    and no timeout of a connection to it."""
    assert int(importlib.metadata.version("redis").split(".")[0]) < 8
    code = """
from controlplane import current, settings
layer = settings.CHANNEL_LAYERS["default"]
assert layer["BACKEND"].endswith("RedisPubSubChannelLayer"), layer
assert [host["socket_timeout"] for host in layer["CONFIG"]["hosts"]] == [None]
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAGNETAR_", "DJANGO_"))}
    environment |= {"MAGNETAR_DATA_DIR": str(data_dir), "MAGNETAR_REDIS_URL": "redis+socket:///v.sock"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
