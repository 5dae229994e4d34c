from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messaging.caller import Caller, current_caller
from messaging.http_server import request_queue
from messaging.http_server.request_queue import HEADERS_MAX, BodyBudget, RequestQueues


class App:
    """Answers when it is let."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.go_on = asyncio.Event()
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun.append(scope["path"])
        self.bodies.append((await receive()).get("body", b""))
        await self.go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Request:
    def __init__(
        self, request_queues: RequestQueues, path: str, address: str = "a", *, full: bool = False, headers: int = 0, chunks: int = 1
    ) -> None:
        self.status = 0
        self.disconnected = asyncio.Event()
        self._chunks = chunks
        scope = {"type": "http", "path": path, "client": (address, 1), "headers": [(b"x", b"y")] * headers, "state": {"full": full}}
        self.task = asyncio.create_task(request_queues(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._chunks:
            self._chunks -= 1
            return {"type": "http.request", "body": b"x" * 100, "more_body": self._chunks > 0}
        await self.disconnected.wait()
        return {"type": "http.disconnect"}

    async def _send(self, event: Any) -> None:
        self.status = event.get("status", self.status)


async def let_tasks_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_requests_wait_in_turn_of_addresses_and_metrics_do_not_wait() -> None:
    app = App()
    request_queues = RequestQueues(app, 1, 8)
    requests = [Request(request_queues, f"/a{index}") for index in range(4)]
    requests += [
        Request(request_queues, "/b", "b"),
        Request(request_queues, "/metrics", full=True),
        Request(request_queues, "/internal/v1/feed"),
    ]
    await let_tasks_run()
    assert app.begun == ["/a0", "/metrics", "/internal/v1/feed"]
    app.go_on.set()
    await asyncio.gather(*(request.task for request in requests))
    assert app.begun[3:] == ["/a1", "/b", "/a2", "/a3"]
    assert [request.status for request in requests] == [200] * 7
    assert (request_queues.requests.running, request_queues.requests.waiting) == (0, 0)


async def test_a_tenant_waits_with_no_more_than_is_left_for_others() -> None:
    app = App()
    request_queues = RequestQueues(app, 1, 10)
    crowd = [Request(request_queues, "/a") for _ in range(30)]
    await let_tasks_run()
    assert request_queues.requests.waiting == 5
    other = Request(request_queues, "/b", "b")
    await let_tasks_run()
    assert request_queues.requests.waiting == 6 and other.status == 0
    assert sum(request.status == 503 for request in crowd) == 24
    app.go_on.set()
    await asyncio.gather(*(request.task for request in [*crowd, other]))
    assert request_queues.requests.running == request_queues.requests.waiting == 0


async def test_a_request_that_stops_waiting_takes_no_turn() -> None:
    app = App()
    request_queues = RequestQueues(app, 1, 10)
    first, second, third = [Request(request_queues, f"/{index}") for index in range(3)]
    await let_tasks_run()
    second.task.cancel()
    app.go_on.set()
    await asyncio.gather(first.task, third.task)
    with pytest.raises(asyncio.CancelledError):
        await second.task
    assert app.begun == ["/0", "/2"]
    assert request_queues.requests.running == request_queues.requests.waiting == 0


async def test_a_body_is_read_before_its_turn_and_counted_until_the_end() -> None:
    app = App()
    bodies = BodyBudget(1000)
    request_queues = RequestQueues(app, 1, 10, bodies)
    first = Request(request_queues, "/first", chunks=3)
    await let_tasks_run()
    assert app.bodies == [b"x" * 100] and bodies.held_bytes == 300
    second = Request(request_queues, "/second", chunks=9)  # of the same address: 200 more, and there is no more left than it holds
    third = Request(request_queues, "/third", "b", chunks=1)
    await let_tasks_run()
    assert second.status == 503 and third.status == 0
    app.go_on.set()
    await asyncio.gather(first.task, second.task, third.task)
    assert bodies.held_bytes == 0 and not bodies.by_address


@pytest.mark.parametrize(("options", "status"), [({"headers": HEADERS_MAX + 1}, 431), ({"full": True}, 503)])
async def test_refused_before_the_application(options: dict[str, Any], status: int) -> None:
    app = App()
    request = Request(RequestQueues(app, 1, 1), "/x", **options)
    await request.task
    assert (request.status, app.begun) == (status, [])


def of_path(scope: Any) -> str:
    return str(scope["path"][1])


async def test_a_tenant_leaves_turns_to_others_whatever_its_address() -> None:
    app = App()
    request_queues = RequestQueues(app, 4, 100, who=of_path)
    many = [Request(request_queues, f"/a{index}") for index in range(40)]
    await let_tasks_run()
    assert app.begun == ["/a0", "/a1"]
    other = Request(request_queues, "/b0")
    await let_tasks_run()
    assert app.begun == ["/a0", "/a1", "/b0"]
    app.go_on.set()
    await asyncio.gather(other.task, *(request.task for request in many))
    assert [request.status for request in [other, *many]] == [200] * 41


async def test_nobody_has_more_turns_at_a_time_than_one_caller_may_also_while_others_are_free() -> None:
    app = App()
    request_queues = RequestQueues(app, 32, 100, who=of_path, of_caller_max=4)
    many = [Request(request_queues, f"/a{index}") for index in range(10)]
    other = Request(request_queues, "/b0")
    await let_tasks_run()
    assert app.begun == ["/a0", "/a1", "/a2", "/a3", "/b0"]
    app.go_on.set()
    await asyncio.gather(other.task, *(request.task for request in many))
    assert app.begun[5:] == [f"/a{index}" for index in range(4, 10)]


async def test_a_request_whose_caller_leaves_while_it_waits_is_not_served() -> None:
    app = App()
    request_queues = RequestQueues(app, 1, 10, BodyBudget(1000))
    first, second, third = [Request(request_queues, f"/{index}") for index in range(3)]
    await let_tasks_run()
    second.disconnected.set()
    await second.task
    app.go_on.set()
    await asyncio.gather(first.task, third.task)
    assert app.begun == ["/0", "/2"] and second.status == 0
    assert request_queues.requests.running == request_queues.requests.waiting == 0


async def test_work_knows_whose_it_is_and_when_they_leave() -> None:
    callers: list[Caller] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        callers.append(current_caller())
        await receive()
        await receive()

    request_queues = RequestQueues(app, 1, 10, BodyBudget(1000), of_path)
    request = Request(request_queues, "/b")
    await let_tasks_run()
    assert [(caller.tenant, caller.left) for caller in callers] == [("b", False)]
    request.disconnected.set()
    await request.task
    assert callers[0].left and current_caller().tenant == ""


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/status.html"])
async def test_health_is_not_shown_while_no_request_is_taken(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(request_queue.PROBE_S, path, 0.01)
    app = App()
    request_queues = RequestQueues(app, 1, 2)
    stuck = [Request(request_queues, f"/{index}") for index in range(4)]
    await let_tasks_run()
    ill = Request(request_queues, path)
    await ill.task
    assert ill.status == 503 and path not in app.begun
    app.go_on.set()
    await asyncio.gather(*(request.task for request in stuck))
    well = Request(request_queues, path)
    await well.task
    assert well.status == 200
    assert request_queues.requests.running == request_queues.requests.waiting == 0


@pytest.mark.parametrize("turns_of_the_loop", range(8))
async def test_a_request_that_is_cancelled_as_its_turn_comes_gives_it_back(turns_of_the_loop: int) -> None:
    app = App()
    request_queues = RequestQueues(app, 1, 8, BodyBudget(1000))
    first, second = Request(request_queues, "/a"), Request(request_queues, "/b", "b")
    await let_tasks_run()
    app.go_on.set()
    for _ in range(turns_of_the_loop):
        await asyncio.sleep(0)
    second.task.cancel()
    await asyncio.gather(first.task, second.task, return_exceptions=True)
    assert (request_queues.requests.running, request_queues.requests.waiting) == (0, 0)
