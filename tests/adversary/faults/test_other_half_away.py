"""Questions after the health of one half of the platform, while the other half is away and requests wait for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.support.brokers.standalone import Standalone

HEALTH = ("/healthz", "/readyz", "/metrics")
WAITING = 60  # more than the web process works on at the same time


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    running = Standalone(tmp_path_factory.mktemp("halves") / "data")
    try:
        yield running.start()
    finally:
        running.close()


@contextmanager
def stopped(platform: Standalone, name: str) -> Iterator[None]:
    """There, and silent: worse than gone, because whoever asks waits for it."""
    pid = platform.child(name)["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def broker_url(platform: Standalone) -> str:
    url: str = platform.ready["ws_url"]
    return url.replace("ws", "http", 1)


def test_the_web_process_answers_while_requests_wait_for_a_broker_that_does_not_answer(platform: Standalone) -> None:
    token = platform.admin_token
    with ThreadPoolExecutor(WAITING) as threads:
        with stopped(platform, "broker"):
            path = "/admin/v2/persistent/public/default/t/stats"
            waiting = [threads.submit(platform.http, "GET", path, token=token) for _ in range(WAITING)]
            for path in HEALTH * 3:
                assert platform.http("GET", path).status == 200
        assert {future.result().status for future in waiting} <= {404, 503}


def test_the_broker_answers_without_the_web_process(platform: Standalone) -> None:
    with stopped(platform, "web"):
        for path in HEALTH * 3:
            assert platform.http("GET", path, url=broker_url(platform)).status == 200
        answer = platform.http("GET", "/metrics", url=broker_url(platform), token=platform.admin_token)
        assert answer.status == 200
