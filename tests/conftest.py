"""What every test may use. The environment itself is made in `tests/environment.py`, before Django loads its settings."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.support import dividing, open_transports, rewriting
from tests.support.databases import forget_broker, other_database
from tests.support.dividing import when_the_group_ends
from tests.support.examples import examples
from tests.support.failed_tests import Alone, FailedTests
from tests.support.storage import faults

if TYPE_CHECKING:
    from _typeshed import HasFileno

    from tests.support.bookkeeper.cluster import Cluster

# How long an example takes says nothing on a machine that does other things too. Where CI is set every run tries the same examples,
# so that a submission is judged by itself; elsewhere each run looks at new ones.
hypothesis.settings.register_profile("magnetar", deadline=None, derandomize=bool(os.environ.get("CI")), max_examples=examples())
hypothesis.settings.load_profile("magnetar")

ROOT = Path(__file__).resolve().parents[1]
# CI ends a run that takes too long, and nothing of it counts. On a machine that is several times slower than usual, what does not
# fit is skipped, and said, so that the rest counts. Its name lacks the prefix: it is no setting of the platform.
_UNTIL_S = float(os.environ.get("TESTS_BEGIN_UNTIL_S", "inf"))
# Whether the tests run that are for a look at all there is (`make thorough`).
_THOROUGH = bool(os.environ.get("TESTS_THOROUGH"))


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    if path := os.environ.get("TESTS_FAILED_FILE"):
        config.pluginmanager.register(FailedTests(Path(path)))
    if os.environ.get("TESTS_ALONE"):
        config.pluginmanager.register(Alone())


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Before xdist starts workers."""
    if session.config.getoption("tx", default=None) and not hasattr(session.config, "workerinput"):
        rewriting.rewrite_ahead(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return dividing.ByGroupAndModule(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not _THOROUGH and (left_out := dividing.leave_out(items)):
        config.hook.pytest_deselected(items=left_out)
    if config.getoption("loadgroup", default=False):
        dividing.sort(items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > _UNTIL_S:
        pytest.skip("the time of this run is used up: run it on a quieter machine, or without TESTS_BEGIN_UNTIL_S")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    result = yield
    dividing.after_teardown(item, nextitem)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Millions of objects of pytest's live as long as the run: looking for garbage among them takes an eighth of their making, and
    each full collection afterwards would walk over them, for 1 s."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def repository() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium to drive; skips where there is none."""
    from controlplane.doctor.checks import CHROMIUMS

    path = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if path is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium-headless-shell (or chromium)")
    return path


@pytest.fixture(scope="session")
def spark() -> None:
    """Used by tests that run a Spark job; skips where the extra is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip('PySpark is not installed: pip install -c constraints.txt -e ".[spark]"')


@pytest.fixture(scope="session")
def redis_server() -> str:
    """URL of a real Redis or Valkey server (`.ci/run` starts one); skips where there is none."""
    url = os.environ.get("MAGNETAR_TEST_REDIS_URL", "")
    if not url:
        pytest.skip("no Redis server: start one and set MAGNETAR_TEST_REDIS_URL=redis://127.0.0.1:6379/0")
    return url


@pytest.fixture(scope="session")
def postgresql() -> str:
    """URL of a PostgreSQL database that tests may write to; skips where there is none."""
    url = os.environ.get("MAGNETAR_TEST_DATABASE_URL", "")
    if not url:
        pytest.skip("no PostgreSQL: start one and set MAGNETAR_TEST_DATABASE_URL=postgresql://user@host/database")
    return url


@pytest.fixture(scope="session")
def metadata_database(postgresql: str) -> Iterator[str]:
    """URL of a database for the metadata of brokers, of this process of the run alone."""
    with other_database(postgresql) as url:
        yield url


@pytest.fixture
def metadata_url(metadata_database: str) -> str:
    """The same without any metadata in it, and without ledgers."""
    forget_broker(metadata_database)
    return metadata_database


@pytest.fixture(scope="session")
def started_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four bookies and a ZooKeeper, 15 s of CPU to start, for all of the group `bookkeeper`: each test has a store of its own."""
    from tests.support.bookkeeper.cluster import running_cluster

    with running_cluster(tmp_path_factory.mktemp("bookkeeper")) as cluster:
        when_the_group_ends(cluster.kill)
        yield cluster


@pytest.fixture
def real_cluster(started_cluster: Cluster) -> Cluster:
    """Four bookies that serve, whatever the test before left killed or standing still."""
    started_cluster.make_whole()
    return started_cluster


@pytest.fixture(scope="session", autouse=True)
def audit_log_can_be_flushed() -> Iterator[None]:
    """After a test with real transactions the tables are emptied, which the triggers of the audit log refuse."""
    from django.db.backends.base.operations import BaseDatabaseOperations

    from tenants.audit.triggers import installing, removing

    flush = BaseDatabaseOperations.execute_sql_flush

    def without_triggers(operations: BaseDatabaseOperations, statements: list[str]) -> None:
        vendor = operations.connection.vendor
        flush(operations, [*removing(vendor), *statements, *installing(vendor)])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BaseDatabaseOperations, "execute_sql_flush", without_triggers)
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> Iterator[None]:
    """The tables of the tests' database come from the script that makes those of a first start: migrations take 2 s of CPU in each
    worker. `tests/controlplane/web/test_schema.py` compares both."""
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.backends.signals import connection_created

    from controlplane.migration_names import migration_names
    from controlplane.sqlite import schema

    def make_tables(connection: BaseDatabaseWrapper, **_: Any) -> None:
        if connection.vendor == "sqlite" and not connection.introspection.table_names():
            connection.connection.executescript(f"PRAGMA foreign_keys = OFF; {script} PRAGMA foreign_keys = ON;")  # in any order

    if not schema.matches(migration_names()):  # a migration has just been written
        yield
        return
    script = schema.SCRIPT.read_text(encoding="utf-8")
    connection_created.connect(make_tables, weak=False)
    yield
    connection_created.disconnect(make_tables)


@pytest.fixture(scope="session", autouse=True)
def static_files_are_listed_once() -> Iterator[None]:
    """Each `Client` of Django's has middleware of its own, which would look at each static file again, for 30 ms."""
    from controlplane.static import StaticFiles

    listed: dict[str, Any] = {}
    add_files = StaticFiles.add_files_from_finders

    def add_listed(middleware: StaticFiles) -> None:
        if not listed:
            add_files(middleware)
            listed.update(middleware.files)
        middleware.files.update(listed)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(StaticFiles, "add_files_from_finders", add_listed)
        yield


@pytest.fixture(scope="session", autouse=True)
def the_disk_is_not_waited_for() -> Iterator[None]:
    """No test takes the power away, which is all that a sync is for, and a test that starts a broker would wait for twenty of them,
    1.3 ms each at best. The programs that tests start sync as ever, and so do databases."""

    def look(file: int | HasFileno) -> None:
        os.fstat(file if isinstance(file, int) else file.fileno())  # what is closed is refused as before

    with pytest.MonkeyPatch.context() as patched:
        for sync in ("fsync", "fdatasync"):
            patched.setattr(os, sync, look)
        yield


@pytest.fixture(autouse=True)
def every_fault_fires() -> Iterator[None]:
    """A test that injects a fault which never happens proves nothing."""
    faults.forget()
    yield
    assert faults.unfired() == [], "asked for, and never happened"


@pytest.fixture(scope="session")
def transports_left_open() -> Iterator[list[str]]:
    with open_transports.watched() as left:
        yield left


@pytest.fixture(autouse=True)
def no_transport_is_left_open(transports_left_open: list[str]) -> Iterator[None]:
    """The loop of a test ends before this does."""
    transports_left_open.clear()
    yield
    assert transports_left_open == [], "nobody closed these before their event loop ended"
