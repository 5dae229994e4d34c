"""The tutorials below /docs/tutorials do what they say, against a whole platform."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from tests.admin_ui.tutorial import FOLDER, FOR_READERS, Block, Mismatch, Reader, blocks, commands_of, fits
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.standalone, pytest.mark.slow, pytest.mark.xdist_group("tutorials"), pytest.mark.timeout(600)]
USAGE_AT_ONCE = {"MAGNETAR_USAGE_INTERVAL_S": "1", "MAGNETAR_USAGE_JOB_INTERVAL_S": "5", "MAGNETAR_BILLING_INTERVAL_S": "5"}
CLICKS = ((1, "ann"), (2, "bob"), (3, "ann"), (4, "bob"), (5, "ann"), (6, "bob"))


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    running = Standalone(tmp_path_factory.mktemp("tutorials") / "data", **USAGE_AT_ONCE).start()
    yield running
    running.close()


@pytest.fixture
def old_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A cluster with Pulsar's admin API and protocol that has a tenant to move: another platform, which lets anybody in."""
    running = Standalone(tmp_path_factory.mktemp("old") / "data").start()
    _fill(running)
    yield running
    running.close()


def _fill(old: Standalone) -> None:
    token = old.admin_token
    for path, body in (
        ("tenants/sales", {"adminRoles": [], "allowedClusters": old.http("GET", "/admin/v2/clusters", None, token).json()}),
        ("namespaces/sales/web", {}),
        ("persistent/sales/web/clicks/partitions", 2),
    ):
        assert old.http("PUT", f"/admin/v2/{path}", body, token).status in (200, 204), path
    for path, body in (("retention", {"retentionTimeInMinutes": 60, "retentionSizeInMB": 512}), ("messageTTL", 86400)):
        assert old.http("POST", f"/admin/v2/namespaces/sales/web/{path}", body, token).status == 204, path
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(old.ready["broker_url"], authentication=pulsar.AuthenticationToken(token), logger=logger)
    producer = client.create_producer("persistent://sales/web/clicks")
    for number, person in CLICKS:
        producer.send(f"click {number}".encode(), partition_key=person)
    client.close()


@pytest.fixture(scope="module")
def first(platform: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """Somebody who has done the first tutorial."""
    reader = Reader(tmp_path_factory.mktemp("reader") / "work", platform)
    reader.follow("first-message.md")
    return reader


@pytest.mark.parametrize("page", ["first-message.md", "retry-queue.md", "delayed-jobs.md"])
def test_a_tutorial_of_the_shop(page: str, first: Reader) -> None:
    if page != "first-message.md":
        first.follow(page)


def test_reading_a_bill(platform: Standalone, tmp_path: Path) -> None:
    Reader(tmp_path / "work", platform).follow("reading-a-bill.md")


def test_moving_from_pulsar(platform: Standalone, old_cluster: Standalone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLD_TOKEN", old_cluster.admin_token)
    old = {"http://old-pulsar:8080": old_cluster.ready["web_url"], "pulsar://old-pulsar:6650": old_cluster.ready["broker_url"]}
    Reader(tmp_path / "work", platform, **old).follow("moving-from-pulsar.md")


def test_every_tutorial_is_listed_and_tried() -> None:
    pages = {path.name for path in FOLDER.glob("*.md")} - {"README.md"}
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"]({page})" in listed for page in pages)
    tried = Path(__file__).read_text(encoding="utf-8")
    assert all(f'"{page}"' in tried for page in pages)
    commands = {command for page in pages for command in commands_of(page)}
    assert set(FOR_READERS) <= commands


def test_what_a_command_prints_is_compared(platform: Standalone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    monkeypatch.setattr("tests.admin_ui.tutorial.FOLDER", pages)
    reader = Reader(tmp_path / "work", platform)
    for text, fault in (
        ("```sh\necho one\n```\n\n```text\ntwo\n```\n", "printed:\none"),
        ("```sh\nfalse\necho one\n```\n", "ended with 1"),
        ("```python x.py\nprint(1)\n```\n\n```sh\npython x.py\n```\n\n```text\n2\n```\n", "printed:\n1"),
    ):
        (pages / "page.md").write_text(text)
        with pytest.raises(Mismatch, match=fault):
            reader.follow("page.md")


def test_dots_stand_for_what_differs() -> None:
    assert blocks("```sh\nls\n```\ntext\n```python a.py\nx\n```\n") == [Block("sh", "", "ls\n"), Block("python", "a.py", "x\n")]
    assert fits("a ... c\n", "a b c\n") and fits("a\n...\nd", "a\nd") and fits("a\n...\nd", "a\nb\nc\nd")
    assert not fits("a ... c", "a b") and not fits("a", "a\nb") and not fits("a\n...\nd", "a\nbd")
