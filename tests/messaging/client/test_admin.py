"""The admin client: addresses, pages, errors, and which requests are sent again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from messaging.client.admin import Admin, ApiError, Unreachable
from messaging.client.admin.http import ATTEMPTS, Http
from tests.support.fake_api import FakeApi, fake_api, problem

BUSY = (503, problem(503, "not_ready", "try again in a moment"))


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with fake_api() as served:
        yield served


def test_names_are_segments_and_parameters_without_a_value_are_left_out(api: FakeApi) -> None:
    path = "tenants/acme/namespaces/orders/topics/a%2Fb%20c"
    api.answer("DELETE", f"{path}?dry_run=false&force=true", (204, None))
    assert Admin(api.url, "secret").topics.delete("acme", "orders", "a/b c", force=True, dry_run=False) is None
    assert api.asked[0].headers["Authorization"] == "Bearer secret"


def test_pages_follow_each_other(api: FakeApi) -> None:
    path = "tenants/acme/namespaces/orders/topics"
    api.answer("GET", f"{path}?limit=1000", (200, {"items": [{"topic": "a", "partitions": 0}], "next": "a"}))
    api.answer("GET", f"{path}?after=a&limit=1000", (200, {"items": [{"topic": "b", "partitions": 2}], "next": None}))
    assert [topic["topic"] for topic in Admin(api.url).topics.each("acme", "orders")] == ["a", "b"]


def test_an_error_says_what_the_platform_said(api: FakeApi) -> None:
    with pytest.raises(ApiError) as refused:
        Admin(api.url).tenants.get("acme")
    error = refused.value
    assert (error.status, error.code, error.request_id) == (404, "not_found", "r1")
    assert str(error) == "nothing is at tenants/acme"
    api.answer("GET", "me", (502, {"from": "a proxy"}))
    with pytest.raises(ApiError, match="does not say why"):
        Admin(api.url).platform.me()


def test_what_reads_is_sent_again_and_a_change_only_with_a_key(api: FakeApi) -> None:
    waits: list[float] = []
    http = Http(api.url, sleep=waits.append)
    api.answer("GET", "me", BUSY, BUSY, (200, {"role": "admin"}))
    assert http.send("GET", "me") == {"role": "admin"}
    assert waits == [0.2, 0.4]
    api.answer("POST", "tenants", BUSY)
    with pytest.raises(ApiError):
        http.send("POST", "tenants", body={"name": "a"})
    assert len(api.asked) == 4
    with pytest.raises(ApiError):
        http.send("POST", "tenants", body={"name": "a"}, idempotency_key="k")
    assert len(api.asked) == 4 + ATTEMPTS
    assert api.asked[-1].headers["Idempotency-Key"] == "k"


def test_a_platform_that_is_away_is_said_to_be() -> None:
    with fake_api() as gone:
        url = gone.url
    with pytest.raises(Unreachable, match="is not responding"):
        Http(url, sleep=lambda _: None).send("GET", "me")
    with pytest.raises(ValueError, match="no address of a platform"):
        Admin("localhost:8080")
