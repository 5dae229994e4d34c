"""Delayed messages are changed over REST: what is asked for, and what its answers become. The other side is in
`tests/tenants/rest/test_delayed.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from messaging import client as magnetar
from messaging.client import errors
from messaging.client.delayed import DelayedMessages
from tests.support.fake_api import FakeApi, fake_api, problem

TOPIC = "persistent://acme/orders/new"
MESSAGE = magnetar.MessageId(12, 7, -1, 3)
AT = "tenants/acme/namespaces/orders/topics/new/delayed"
ITEM = {
    "message_id": "12:7:3:-1",
    "deliver_at_ms": 17,
    "former_ms": None,
    "publish_time_ms": 5,
    "producer": "p",
    "key": "k",
    "messages": 1,
    "size_bytes": 9,
}
CHANGED = (200, {"already": False, "former_ms": 5})


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with fake_api() as served:
        yield served


def delayed(url: str | None) -> DelayedMessages:
    async def key() -> str:
        return "secret"

    return magnetar.connect("pulsar://127.0.0.1:1", key=key, admin_url=url).delayed(TOPIC)


async def test_a_message_is_cancelled_and_rescheduled_by_its_id(api: FakeApi) -> None:
    api.answer("DELETE", f"{AT}/12%3A7%3A3%3A-1", CHANGED, (200, {"already": True, "former_ms": 5}))
    api.answer("PATCH", f"{AT}/12%3A7%3A3%3A-1", CHANGED)
    waiting = delayed(api.url)
    assert await waiting.cancel(MESSAGE) and not await waiting.cancel(MESSAGE)
    assert await waiting.reschedule(MESSAGE, deliver_after_s=1.5)
    assert await waiting.reschedule(MESSAGE, deliver_at_ms=17)
    assert [asked.body for asked in api.asked] == [None, None, {"delay_ms": 1500}, {"deliver_at_ms": 17}]
    assert {asked.headers["Authorization"] for asked in api.asked} == {"Bearer secret"}


async def test_what_is_due_next_is_listed(api: FakeApi) -> None:
    api.answer("GET", f"{AT}?limit=2", (200, {"items": [ITEM], "next": None, "complete": True}))
    (message,) = await delayed(api.url).next(2)
    assert (message.id, message.deliver_at_ms, message.key) == (MESSAGE, 17, "k")


async def test_refusals_are_errors_of_the_sdk(api: FakeApi) -> None:
    with pytest.raises(errors.InvalidValue, match="either deliver_at_ms"):
        await delayed(api.url).reschedule(MESSAGE)
    with pytest.raises(errors.NotFound, match="nothing is at"):
        await delayed(api.url).cancel(MESSAGE)
    api.answer("DELETE", f"{AT}/12%3A7%3A3%3A-1", (403, problem(403, "not_authorized", "consume is not enough")))
    with pytest.raises(errors.NotAuthorized, match="consume is not enough"):
        await delayed(api.url).cancel(MESSAGE)
    with fake_api() as gone:
        url = gone.url
    with pytest.raises(errors.Unreachable) as caught:
        await delayed(url).cancel(MESSAGE)
    assert errors.whose_fault(caught.value) == "network"
    with pytest.raises(errors.InvalidOperation, match="admin_url"):
        delayed(None)
