from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from messaging import errors
from messaging.adminrpc import client as client_module
from messaging.adminrpc.base import Empty, Method, Request
from messaging.adminrpc.calls import Standing
from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.feed import FeedVersion
from messaging.adminrpc.finding import BrokerChoice
from messaging.adminrpc.methods import (
    FEED_VERSION,
    SUBSCRIPTIONS_SKIP,
    TOPICS_CREATE,
    TOPICS_DELETE,
    TOPICS_LIST,
    TOPICS_PARTITIONED_STATS,
    TOPICS_PARTITIONS,
    TOPICS_STATS,
    TOPICS_UNLOAD,
)
from messaging.adminrpc.subscriptions import SubscriptionSkip
from messaging.adminrpc.topics import PartitionsGet, StatsAsked, TopicCreate, TopicDelete, TopicNames, TopicRef, TopicsList
from messaging.settings import Settings
from tests.support.waiting import eventually_sync


class Broker:
    """An HTTP server that answers with what `answer` returns, or breaks the connection where it raises."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, str]] = []
        self.connections = 0
        self.answer: Callable[[str], tuple[int, bytes]] = lambda method: (200, b"{}")
        self.close_after_answer = False  # closes without saying so, as a server that was idle too long
        self.closed = threading.Semaphore(0)
        broker = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                broker.connections += 1
                super().setup()

            def finish(self) -> None:
                super().finish()
                self.connection.close()
                broker.closed.release()

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                broker.calls.append((self.path, json.loads(content), self.headers["Authorization"]))
                try:
                    status, body = broker.answer(self.path.removeprefix("/rpc/v1/"))
                except ConnectionError:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = broker.close_after_answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    running = Broker()
    yield running
    running.stop()


@pytest.fixture
def rpc(broker: Broker) -> Iterator[AdminRpc]:
    with closing(AdminRpc(lambda: broker.url, lambda: "identity-token", timeout_s=10)) as client:
        yield client


def test_a_call_carries_the_request_and_the_identity_and_returns_the_typed_answer(broker: Broker, rpc: AdminRpc) -> None:
    broker.answer = lambda method: (200, b'{"topics": ["persistent://a/b/c"], "partitioned": {}, "of_a_later_release": 1}')
    answer = rpc.call(TOPICS_LIST, TopicsList(namespace="a/b"))
    assert answer == TopicNames(topics=["persistent://a/b/c"], partitioned={})
    assert broker.calls == [("/rpc/v1/topics.list", {"namespace": "a/b"}, "Bearer identity-token")]


def test_a_method_without_arguments_needs_none(broker: Broker, rpc: AdminRpc) -> None:
    broker.answer = lambda method: (200, b'{"version": 7}')
    assert rpc.call(FEED_VERSION, Request()) == FeedVersion(version=7)
    assert rpc.call(FEED_VERSION, Request()) == FeedVersion(version=7)


def test_one_connection_serves_all_calls_of_a_thread(broker: Broker, rpc: AdminRpc) -> None:
    for _ in range(3):
        assert rpc.call(TOPICS_UNLOAD, TopicRef(topic="t")) == Empty()
    assert broker.connections == 1

    def other_thread() -> None:
        rpc.call(TOPICS_UNLOAD, TopicRef(topic="t"))
        rpc.close()

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    assert broker.connections == 2


def test_errors_come_back_as_the_exceptions_they_were(broker: Broker, rpc: AdminRpc) -> None:
    broker.answer = lambda method: (409, b'{"code": "conflict", "message": "it exists: choose another name"}')
    with pytest.raises(errors.Conflict, match="choose another name"):
        rpc.call(TOPICS_CREATE, TopicCreate(topic="t"))
    broker.answer = lambda method: (502, b"<html>")
    with pytest.raises(errors.MagnetarError, match="HTTP status 502"):
        rpc.call(TOPICS_CREATE, TopicCreate(topic="t"))
    broker.answer = lambda method: (200, b'{"version": "no number"}')
    with pytest.raises(errors.MagnetarError, match="is not valid"):
        rpc.call(FEED_VERSION, Request())


def test_a_connection_closed_at_rest_is_replaced_before_anything_is_sent(broker: Broker, rpc: AdminRpc) -> None:
    broker.close_after_answer = True
    for count in (1, 2):
        assert rpc.call(TOPICS_CREATE, TopicCreate(topic=f"t{count}")) == Empty()
        assert broker.closed.acquire(timeout=10)
    assert broker.connections == 2
    assert [call[1]["topic"] for call in broker.calls] == ["t1", "t2"]


def test_an_idempotent_call_is_repeated_once_after_a_break(broker: Broker, rpc: AdminRpc) -> None:
    breaks = iter([True, False, True, True])

    def answer(method: str) -> tuple[int, bytes]:
        if next(breaks):
            raise ConnectionError
        return 200, b"{}"

    broker.answer = answer
    assert rpc.call(TOPICS_UNLOAD, TopicRef(topic="t")) == Empty()
    assert len(broker.calls) == 2
    with pytest.raises(errors.NotReady, match="closed the connection twice"):
        rpc.call(TOPICS_UNLOAD, TopicRef(topic="t"))
    assert len(broker.calls) == 4


@pytest.mark.parametrize(
    ("method", "request_"),
    [(TOPICS_CREATE, TopicCreate(topic="t")), (SUBSCRIPTIONS_SKIP, SubscriptionSkip(topic="t", subscription="s", entries=10))],
)
def test_a_call_that_is_not_idempotent_is_never_repeated(
    broker: Broker, rpc: AdminRpc, method: Method[Any, Any], request_: Request
) -> None:
    """Skipping ten messages twice would lose ten that nobody has seen."""

    def answer(method: str) -> tuple[int, bytes]:
        raise ConnectionError

    broker.answer = answer
    with pytest.raises(errors.NotReady, match="whether it was done is not known"):
        rpc.call(method, request_)
    assert len(broker.calls) == 1


def test_refused_says_which_broker() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(errors.NotReady, match=r"^broker b1 is not responding"):
            AdminRpc(lambda: url, lambda: "token", name_of={url: "broker b1"}.__getitem__).call(FEED_VERSION, Request())
    with pytest.raises(errors.NotReady, match="broker_rpc_url"):
        AdminRpc(lambda: "localhost:80", lambda: "token").call(FEED_VERSION, Request())


def test_silence_ends_after_the_timeout_and_the_next_call_uses_a_new_connection(broker: Broker) -> None:
    release = threading.Event()

    def answer(method: str) -> tuple[int, bytes]:
        release.wait(10)
        return 200, b'{"version": 1}'

    broker.answer = answer
    with closing(AdminRpc(lambda: broker.url, lambda: "token", timeout_s=0.05)) as rpc:
        with pytest.raises(errors.NotReady, match=r"did not respond to feed\.version within 0\.05 s"):
            rpc.call(FEED_VERSION, Request())
        release.set()
        broker.answer = lambda method: (200, b'{"version": 2}')
        rpc.timeout_s = 10
        assert rpc.call(FEED_VERSION, Request()).version == 2


def test_figures_of_thousands_of_partitions_are_awaited_longer(broker: Broker) -> None:
    """They ended after ten seconds, and only a repeated call found the partitions loaded."""

    def answer(method: str) -> tuple[int, bytes]:
        threading.Event().wait(0.3)
        return 200, b'{"stats": {}}'

    broker.answer = answer
    with closing(AdminRpc(lambda: broker.url, lambda: "token", timeout_s=0.1)) as rpc:
        assert rpc.call(TOPICS_PARTITIONED_STATS, StatsAsked(topic="acme/orders/t")).stats == {}
        with pytest.raises(errors.NotReady, match=r"within 0\.1 s"):
            rpc.call(TOPICS_STATS, StatsAsked(topic="acme/orders/t"))


def test_an_answer_without_end_is_refused(broker: Broker, rpc: AdminRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "ANSWER_BYTES_MAX", 10)
    broker.answer = lambda method: (200, b" " * 11)
    with pytest.raises(errors.MagnetarError, match="longer than 10 bytes"):
        rpc.call(FEED_VERSION, Request())


def test_a_restarted_broker_is_found_at_its_new_port(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path))
    with closing(AdminRpc(BrokerChoice(settings).rpc_url, lambda: "token")) as rpc:
        with pytest.raises(errors.NotReady, match="not running"):
            rpc.call(FEED_VERSION, Request())
        (tmp_path / "run").mkdir()
        for version in (1, 2):
            broker = Broker()
            broker.answer = lambda method, version=version: (200, b'{"version": %d}' % version)  # type: ignore[misc]
            broker.close_after_answer = True
            (tmp_path / "run" / "broker.json").write_text(json.dumps({"rpc_url": broker.url}))
            assert rpc.call(FEED_VERSION, Request()).version == version
            assert broker.closed.acquire(timeout=10)
            broker.stop()


def test_another_broker_is_asked_where_one_cannot_be_reached(broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        away = f"http://127.0.0.1:{closed.getsockname()[1]}"
    told: list[str] = []
    with closing(AdminRpc(lambda: broker.url if told else away, lambda: "token", did_not_answer=told.append)) as rpc:
        rpc.call(TOPICS_UNLOAD, TopicRef(topic="t"))
    assert told == [away] and len(broker.calls) == 1
    with (
        closing(AdminRpc(lambda: away, lambda: "token", did_not_answer=told.append)) as rpc,
        pytest.raises(errors.NotReady, match=r"^the broker is not responding \(Connection refused\)"),  # tenants see no address
    ):
        rpc.call(TOPICS_UNLOAD, TopicRef(topic="t"))


def test_one_that_does_not_answer_in_time_is_told(broker: Broker) -> None:
    told: list[str] = []
    answered = threading.Event()

    def answer(method: str) -> tuple[int, bytes]:
        answered.wait(10)
        return 200, b"{}"

    broker.answer = answer
    with (
        closing(AdminRpc(lambda: broker.url, lambda: "token", 0.05, did_not_answer=told.append)) as rpc,
        pytest.raises(errors.NotReady, match="did not respond"),
    ):
        rpc.call(TOPICS_UNLOAD, TopicRef(topic="t"))
    answered.set()
    assert told == [broker.url]


class Silent(Broker):
    """Takes calls, and answers nothing. `asked`: what somebody asks meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = threading.Event()
        self.asking: list[threading.Thread] = []
        self.answer = self.never

    def never(self, method: str) -> tuple[int, bytes]:
        self.ends.wait(30)
        raise ConnectionResetError

    def asked(self, rpc: AdminRpc, method: Method[Any, Any], request: Request) -> threading.Thread:
        def ask() -> None:
            with closing(rpc), suppress(errors.NotReady):
                rpc.call(method, request)

        self.asking.append(threading.Thread(target=ask))
        self.asking[-1].start()
        return self.asking[-1]


@pytest.fixture
def silent() -> Iterator[Silent]:
    made = Silent()
    yield made
    made.ends.set()
    for thread in made.asking:
        thread.join()
    made.stop()


def test_what_a_silent_broker_was_asked_is_asked_of_another(silent: Silent, broker: Broker) -> None:
    """But for changes. A deletion that was asked of two was answered with 404, and told to no audit log."""
    broker.answer = lambda method: (200, b'{"version": 1}' if method == FEED_VERSION.name else b'{"partitions": 0}')
    left_alone: list[str] = []
    with closing(
        AdminRpc(
            lambda: broker.url if left_alone else silent.url,
            lambda: "token",
            did_not_answer=left_alone.append,
            avoids=left_alone.__contains__,
        )
    ) as rpc:
        read = silent.asked(rpc, TOPICS_PARTITIONS, PartitionsGet(topic="t"))
        skip = silent.asked(rpc, SUBSCRIPTIONS_SKIP, SubscriptionSkip(topic="t", subscription="s", entries=1))
        deletion = silent.asked(rpc, TOPICS_DELETE, TopicDelete(topic="t"))
        eventually_sync(lambda: len(silent.calls) == 3)
        assert rpc.look(0, 0.05) is Standing.ASKED_ANOTHER
        read.join(30)
        assert {path for path, *_ in broker.calls} == {"/rpc/v1/feed.version", "/rpc/v1/topics.partitions"}
        assert skip.is_alive() and deletion.is_alive()
        assert left_alone == [silent.url]


def test_a_silent_broker_that_is_alone_is_told_and_keeps_what_it_was_asked(silent: Silent) -> None:
    with closing(AdminRpc(lambda: silent.url, lambda: "token")) as rpc:
        read = silent.asked(rpc, TOPICS_PARTITIONS, PartitionsGet(topic="t"))
        eventually_sync(lambda: silent.calls)
        assert rpc.look(0, 0.05) is Standing.SILENT
        assert read.is_alive()


def test_a_broker_that_only_works_long_keeps_what_it_was_asked(broker: Broker, silent: Silent) -> None:
    broker.answer = lambda method: (200, b'{"version": 1}') if method == FEED_VERSION.name else silent.never(method)
    with closing(AdminRpc(lambda: broker.url, lambda: "token")) as rpc:
        read = silent.asked(rpc, TOPICS_PARTITIONS, PartitionsGet(topic="t"))
        eventually_sync(lambda: broker.calls)
        assert rpc.look(0, 10) is Standing.ANSWERS
        assert read.is_alive()


def test_no_connection_to_a_broker_that_is_left_alone_is_used_again(broker: Broker, silent: Silent) -> None:
    left_alone = set[str]()
    urls = iter((broker.url, silent.url))
    silent.answer = broker.answer
    with closing(AdminRpc(lambda: next(urls), lambda: "token", avoids=left_alone.__contains__)) as rpc:
        rpc.call(TOPICS_UNLOAD, TopicRef(topic="t"))
        rpc.call(TOPICS_UNLOAD, TopicRef(topic="t"))
        left_alone.add(broker.url)
        rpc.call(TOPICS_UNLOAD, TopicRef(topic="t"))
    assert (len(broker.calls), len(silent.calls)) == (2, 1)


def test_the_url_comes_from_the_setting_or_the_file(tmp_path: Path) -> None:
    assert BrokerChoice(Settings(data_dir=str(tmp_path), broker_rpc_url="http://127.0.0.1:1")).rpc_url() == "http://127.0.0.1:1"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "broker.json").write_text('{"pid": 1}')
    with pytest.raises(errors.NotReady, match="KeyError"):
        BrokerChoice(Settings(data_dir=str(tmp_path))).rpc_url()


def test_a_forked_child_does_not_use_its_parents_connection(broker: Broker, rpc: AdminRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    rpc.call(TOPICS_UNLOAD, TopicRef(topic="t"))
    child = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: child)
    rpc.call(TOPICS_UNLOAD, TopicRef(topic="t"))
    assert broker.connections == 2
