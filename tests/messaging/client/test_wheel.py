"""``magnetar-client``, the SDK alone: what is in it, and that it works where nothing else of the platform is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from messaging.client.wheel import DEPENDENCIES, EXTRAS, build, closure, project
from tests.support.brokers.running_broker import RunningBroker

SCRIPT = """
    import asyncio, importlib.abc, sys

    wheel, libraries, url, key = sys.argv[1:]
    sys.path += [wheel, libraries]

    class Refused(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name.partition(".")[0] in ("django", "celery", "channels", "pyspark", "pyarrow", "arro3", "tenants", "controlplane"):
                raise ImportError(f"{name} is not part of the SDK")

    sys.meta_path.insert(0, Refused())

    from messaging import client as magnetar
    from messaging.client import blocking

    assert magnetar.__file__.startswith(wheel), magnetar.__file__

    async def main():
        async with magnetar.connect(url, key=key) as client:
            async with client.consumer("acme/orders/slim", "s") as consumer, client.producer("acme/orders/slim") as producer:
                await producer.send(b"slim")
                print((await consumer.receive(10)).payload.decode())

    asyncio.run(main())
    for heavy in ("fastavro", "cryptography", "opentelemetry"):
        assert heavy not in sys.modules, heavy
"""


def test_its_libraries_are_those_that_it_says() -> None:
    modules, libraries = closure()
    assert libraries - {"compression"} == {*DEPENDENCIES, *LAZY}, "add it to messaging/client/wheel.py"
    assert not [name for name in modules if name.startswith(("messaging.broker", "messaging.storage", "messaging.adminrpc"))]
    assert all(name in project() for name in EXTRAS.values())


LAZY = {"fastavro", "cryptography", "opentelemetry"}  # the libraries of extras, by what is imported


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


def test_it_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        metadata = opened.read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert "messaging/client/__init__.py" in names and "messaging/py.typed" in names
    assert not [name for name in names if name.endswith(("wheel.py", ".so"))]
    assert "Name: magnetar-client" in metadata and "Requires-Dist: protobuf" in metadata and "django" not in metadata
    assert wheel.stat().st_size < 400_000


async def test_it_works_where_nothing_else_of_the_platform_is(wheel: Path, broker: RunningBroker, tmp_path: Path) -> None:
    """Without `site`, so that this checkout is not on the path; with the libraries that are installed here."""
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(tmp_path / "installed")
    libraries = next(path for path in sys.path if path.endswith("site-packages"))
    url, key = f"pulsar://127.0.0.1:{broker.port}", broker.token("owner")
    command = [sys.executable, "-I", "-S", "-c", textwrap.dedent(SCRIPT), str(tmp_path / "installed"), libraries, url, key]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = await process.communicate()
    assert out.decode() == "slim\n", err.decode()
