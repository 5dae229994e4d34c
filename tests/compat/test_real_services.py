"""The same platform on PostgreSQL and Redis, as at scale, where `.ci/run` started them; with two web processes too."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.child_process import python
from tests.compat.stock import Stock, receive
from tests.support.brokers.standalone import Standalone
from tests.support.console_reader import Browser
from tests.support.databases import other_database
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("platforms"), pytest.mark.standalone]


@pytest.fixture
def database(postgresql: str) -> Iterator[str]:
    """A database of this test alone."""
    with other_database(postgresql) as url:
        yield url


@pytest.mark.timeout(240)
def test_on_postgresql_and_redis(tmp_path: Path, database: str, redis_server: str) -> None:
    services = {"MAGNETAR_DATABASE_URL": database, "MAGNETAR_METADATA_URL": database, "MAGNETAR_REDIS_URL": redis_server}
    platform = Standalone(tmp_path / "data", **services)
    stock = None
    try:
        platform.start()
        assert {child["name"] for child in platform.state()["children"]} == {"prepare", "broker", "web", "worker"}
        token = platform.admin_token
        assert platform.http("POST", "/api/v1/tenants", {"name": "acme"}, token).status == 201
        assert platform.http("POST", "/api/v1/tenants/acme/namespaces", {"name": "orders"}, token).status == 201
        key = platform.http("POST", "/api/v1/tenants/acme/keys", {"name": "app"}, token).json()["token"]
        grant = {"actions": ["produce", "consume"]}
        assert platform.http("PUT", "/api/v1/tenants/acme/namespaces/orders/permissions/app@acme", grant, token).status == 200
        stock = Stock(platform.ready["broker_url"], tmp_path / "client.log")
        client = stock.client(key)
        consumer = client.subscribe("persistent://acme/orders/new", "billing")
        client.create_producer("persistent://acme/orders/new").send(b"order 1")
        assert [message.data() for message in receive(consumer, 1)] == [b"order 1"]  # and is not acknowledged
        platform.kill_child("broker")
        client.create_producer("persistent://acme/orders/new").send(b"order 2")
        assert [message.data() for message in receive(consumer, 2)] == [b"order 1", b"order 2"]
        assert not (platform.folder / "control" / "db.sqlite3").exists()
        assert not (platform.folder / "broker" / "meta.sqlite3").exists()
    finally:
        if stock is not None:
            stock.close()
        platform.close()


@contextmanager
def another_web_process(platform: Standalone) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Its URL. It has the platform's database, cache and data directory."""
    environment = platform.environment | {"MAGNETAR_DATA_DIR": str(platform.folder), "MAGNETAR_WEB_PORT": "0"}
    process = subprocess.Popen(python("controlplane.web"), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually_sync(lambda: announced(platform).get("pid") == process.pid, 60)
        yield announced(platform)["web_url"], process
    finally:
        process.terminate()
        process.wait(30)


def announced(platform: Standalone) -> dict[str, Any]:
    """Whom brokers ask."""
    try:
        value: dict[str, Any] = json.loads((platform.folder / "run" / "web.json").read_bytes())
    except OSError:
        return {}
    return value


@pytest.mark.timeout(400)
def test_two_web_processes_are_one_platform(tmp_path: Path, database: str, redis_server: str) -> None:
    platform = Standalone(tmp_path / "data", MAGNETAR_DATABASE_URL=database, MAGNETAR_REDIS_URL=redis_server)
    try:
        platform.start()
        token, here = platform.admin_token, platform.ready["web_url"]
        with another_web_process(platform) as (there, process):

            def both(method: str, path: str, body: Any = None, by: str = token) -> list[int]:
                return [platform.http(method, path, body, by, url).status for url in (here, there)]

            # What one of them changed, the other knows with the next request.
            assert platform.http("POST", "/api/v1/tenants", {"name": "acme"}, token, there).status == 201
            made = platform.http("POST", "/api/v1/tenants/acme/keys", {"name": "app"}, token, here).json()
            assert both("GET", "/api/v1/me", by=made["token"]) == [200, 200]
            assert platform.http("DELETE", f"/api/v1/tenants/acme/keys/{made['id']}", None, token, there).status == 200
            assert both("GET", "/api/v1/me", by=made["token"]) == [401, 401]

            # Whoever signed in at one is signed in at both, and out of both; the address has no part in it.
            person, elsewhere = Browser(here), Browser(there)
            person.sign_in(platform.ready["console_user"], platform.console_password)
            elsewhere.jar = person.jar
            elsewhere.opener = person.opener
            assert "Sign out" in person.get("/tenants/acme/keys") and "Sign out" in elsewhere.get("/tenants/acme/keys")
            platform.run_python(
                "from tenants.access import platform_actor; from tenants.actions.people import end_sessions; "
                f"end_sessions(platform_actor('service:cli'), {platform.ready['console_user']!r})"
            )
            assert "Sign in" in person.get("/tenants/acme/keys") and "Sign in" in elsewhere.get("/tenants/acme/keys")

            # Changes of both at once: each is there, and the chain of the audit log is whole.
            def create(number: int) -> int:
                url = (here, there)[number % 2]
                return platform.http("POST", "/api/v1/tenants/acme/namespaces", {"name": f"n{number}"}, token, url).status

            with ThreadPoolExecutor(4) as threads:
                assert set(threads.map(create, range(40))) == {201}
            listed = platform.http("GET", "/api/v1/tenants/acme/namespaces?limit=100", None, token).json()["items"]
            assert {f"acme/n{number}" for number in range(40)} <= {item["name"] for item in listed}
            assert platform.run_python("from tenants.audit.log_reading import verify; print(verify().intact)") == "True"

            # Brokers ask the one that began last. It dies without a word: the other one takes over.
            process.kill()
            process.wait()
            eventually_sync(lambda: announced(platform).get("web_url") == here, 60)
        assert platform.http("POST", "/api/v1/tenants/acme/namespaces", {"name": "after"}, token).status == 201
    finally:
        platform.close()
