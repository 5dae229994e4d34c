"""The platform as a whole: REST, console, SDK, upkeep, usage and Spark against one `magnetar standalone`, stock clients beside."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pulsar
import pytest

from messaging import client as magnetar
from messaging.errors import AuthenticationFailed
from tests.compat.stock import RECEIVE_MS, Stock, nothing_more, receive
from tests.support.brokers.standalone import Answer, Standalone
from tests.support.console_reader import Browser
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]


class Rest:
    def __init__(self, platform: Standalone) -> None:
        self.platform = platform
        self.token = platform.admin_token

    def __call__(self, method: str, path: str, body: Any = None, *, expect: int = 200) -> Any:
        answer: Answer = self.platform.http(method, path, body, self.token)
        assert answer.status == expect, f"{method} {path}: {answer.status} {answer.text}"
        return answer.json() if answer.text else None


@pytest.fixture(scope="module")
def rest(standalone: Standalone) -> Rest:
    return Rest(standalone)


# --- REST --------------------------------------------------------------------------------------------------------------------


def test_our_api_from_tenant_to_topic_and_back(rest: Rest, standalone: Standalone, stock: Stock) -> None:
    rest("POST", "/api/v1/tenants", {"name": "north"}, expect=201)
    rest("POST", "/api/v1/tenants/north/namespaces", {"name": "sea"}, expect=201)
    rest(
        "PATCH",
        "/api/v1/tenants/north/namespaces/sea/policies",
        {"message_ttl_s": 3600, "retention_time_min": 60, "retention_size_mb": 10},
    )
    rest("POST", "/api/v1/tenants/north/namespaces/sea/topics", {"name": "waves"}, expect=201)
    # The call answered, so the broker has it: no waiting here.
    client = stock.client(standalone.admin_token)
    consumer = client.subscribe("persistent://north/sea/waves", "shore")
    producer = client.create_producer("persistent://north/sea/waves")
    for number in range(5):
        producer.send(str(number).encode())
    stats = rest("GET", "/api/v1/tenants/north/namespaces/sea/topics/waves/stats")["stats"]
    assert stats["msgInCounter"] == 5 and stats["subscriptions"]["shore"]["msgBacklog"] == 5
    receive(consumer, 5)
    eventually_sync(
        lambda: (
            rest("GET", "/api/v1/tenants/north/namespaces/sea/topics/waves/stats")["stats"]["subscriptions"]["shore"]["msgBacklog"]
            == 0
        )
    )
    assert rest("GET", "/api/v1/tenants/north/namespaces/sea/policies")["message_ttl_s"] == 3600
    listed = rest("GET", "/api/v1/tenants/north/namespaces/sea/topics")["items"]
    assert [entry["topic"] for entry in listed] == ["persistent://north/sea/waves"]
    client.close()
    rest("DELETE", "/api/v1/tenants/north/namespaces/sea/topics/waves?force=true", expect=204)
    rest("DELETE", "/api/v1/tenants/north/namespaces/sea", expect=204)
    rest("DELETE", "/api/v1/tenants/north", expect=204)
    rest("GET", "/api/v1/tenants/north", expect=404)


def test_pulsars_admin_api_as_pulsar_admin_calls_it(rest: Rest) -> None:
    rest("PUT", "/admin/v2/tenants/south", {"adminRoles": ["captain"], "allowedClusters": ["standalone"]}, expect=204)
    assert rest("GET", "/admin/v2/tenants/south")["adminRoles"] == ["captain"]
    rest("PUT", "/admin/v2/namespaces/south/pole", {}, expect=204)
    rest("POST", "/admin/v2/namespaces/south/pole/retention", {"retentionTimeInMinutes": 30, "retentionSizeInMB": 5}, expect=204)
    rest("POST", "/admin/v2/namespaces/south/pole/messageTTL", 120, expect=204)
    assert rest("GET", "/admin/v2/namespaces/south/pole/messageTTL") == 120
    rest("PUT", "/admin/v2/persistent/south/pole/ice/partitions", 2, expect=204)
    assert rest("GET", "/admin/v2/persistent/south/pole/ice/partitions")["partitions"] == 2
    rest("PUT", "/admin/v2/persistent/south/pole/snow", expect=204)
    assert "persistent://south/pole/snow" in rest("GET", "/admin/v2/persistent/south/pole")
    assert rest("GET", "/admin/v2/namespaces/south") == ["south/pole"]
    reason = rest("PUT", "/admin/v2/tenants/south", {"adminRoles": [], "allowedClusters": ["standalone"]}, expect=409)["reason"]
    assert "south" in reason
    rest("DELETE", "/admin/v2/persistent/south/pole/snow", expect=204)
    rest("DELETE", "/admin/v2/persistent/south/pole/ice/partitions", expect=204)
    rest("DELETE", "/admin/v2/namespaces/south/pole", expect=204)
    rest("DELETE", "/admin/v2/tenants/south", expect=204)
    assert "south" not in rest("GET", "/admin/v2/tenants")


def test_truncating_under_connected_stock_clients(rest: Rest, standalone: Standalone, stock: Stock, topic: str) -> None:
    client = stock.client(standalone.admin_token)
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    for number in range(5):
        producer.send(b"%d" % number)
    unacked = consumer.receive(RECEIVE_MS)  # on its way to being acknowledged
    rest("DELETE", f"/admin/v2/persistent/{topic.partition('://')[2]}/truncate", expect=204)
    consumer.acknowledge(unacked)
    other = client.subscribe(topic, "later", initial_position=pulsar.InitialPosition.Earliest)
    producer.send(b"after")
    assert [message.data() for message in receive(other, 1)] == [b"after"]
    # What the client had prefetched before comes first; nothing more is owed to it than that and what came after.
    payloads = [message.data() for message in receive(consumer, 5)]
    assert payloads[-1] == b"after" and nothing_more(consumer)


def test_errors_say_what_to_do_in_the_shape_of_their_api(standalone: Standalone, rest: Rest) -> None:
    ours = standalone.http("GET", "/api/v1/tenants/no-such-tenant", token=rest.token)
    assert ours.status == 404 and ours.headers["Content-Type"].startswith("application/problem+json")
    assert {"type", "title", "status", "detail", "code"} <= set(ours.json())
    theirs = standalone.http("GET", "/admin/v2/tenants/no-such-tenant", token=rest.token)
    assert theirs.status == 404 and "no-such-tenant" in theirs.json()["reason"]


def test_strangers_are_refused(standalone: Standalone) -> None:
    for token in (None, "nonsense"):
        assert standalone.http("GET", "/api/v1/tenants", token=token).status == 401
        assert standalone.http("PUT", "/admin/v2/tenants/mine", {}, token).status == 401
    assert standalone.http("GET", "/internal/v1/feed?since=0").status in (401, 403)


def test_the_openapi_document_is_served(rest: Rest) -> None:
    document = rest("GET", "/api/v1/openapi.json")
    assert document["openapi"].startswith("3.") and "/api/v1/tenants" in document["paths"]


def test_a_web_page_of_another_site_gets_nothing(standalone: Standalone) -> None:
    evil = {"Origin": "https://evil.example"}
    assert standalone.http("GET", "/api/v1/tenants", token=standalone.admin_token, headers={"Host": "evil.example"}).status in (
        400,
        403,
        421,
    )
    assert standalone.http("POST", "/api/v1/tenants", {"name": "x"}, standalone.admin_token, headers=evil).status == 403


# --- health ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
@pytest.mark.parametrize("process", ["web", "broker"])
def test_health_and_metrics(standalone: Standalone, process: str, path: str) -> None:
    url = standalone.ready["web_url"] if process == "web" else standalone.ready["ws_url"].replace("ws://", "http://")
    answer = standalone.http("GET", path, url=url)
    assert answer.status == 200
    if path == "/metrics":
        assert "magnetar_" in answer.text and "compat-" not in answer.text, "no topic of anybody in a public scrape"


def test_pulsars_health_check(rest: Rest, standalone: Standalone) -> None:
    assert standalone.http("GET", "/admin/v2/brokers/health").text == "ok"


# --- console -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(standalone: Standalone) -> Browser:
    made = Browser(standalone.ready["web_url"])
    made.sign_in(standalone.ready["console_user"], standalone.console_password)
    return made


def test_the_console_asks_who_one_is(standalone: Standalone) -> None:
    stranger = Browser(standalone.ready["web_url"])
    assert "Sign in" in stranger.get("/tenants/public")
    assert "The user name or password is incorrect" in stranger.sign_in("admin", "wrong")


def test_the_console_shows_tenants_namespaces_and_topics(browser: Browser, stock: Stock) -> None:
    # The list has pages, and other tests have topics here too: this one is the first.
    stock.client().create_producer("persistent://public/default/0-seen-in-console").send(b"x")
    assert "public" in browser.get("/tenants")
    assert "/tenants/public/namespaces/default" in browser.get("/tenants/public")
    assert "0-seen-in-console" in browser.get("/tenants/public/namespaces/default")


# --- SDK ---------------------------------------------------------------------------------------------------------------------


async def test_the_sdk_and_a_stock_client_read_each_other(standalone: Standalone, rest: Rest, stock: Stock) -> None:
    rest("POST", "/api/v1/tenants", {"name": "sdk"}, expect=201)
    rest("POST", "/api/v1/tenants/sdk/namespaces", {"name": "main"}, expect=201)
    key = rest("POST", "/api/v1/tenants/sdk/keys", {"name": "app"}, expect=201)["token"]
    rest("PUT", "/api/v1/tenants/sdk/namespaces/main/permissions/app@sdk", {"actions": ["produce", "consume"]})
    topic = "persistent://sdk/main/talk"
    theirs = stock.client(key)
    consumer = theirs.subscribe(topic, "theirs")
    async with magnetar.connect(standalone.ready["ws_url"], key=key) as client:
        async with client.producer(topic) as producer:
            await producer.send(b"from the SDK", key="k", properties={"a": "b"})
        (got,) = receive(consumer, 1)
        assert (got.data(), got.partition_key(), got.properties()) == (b"from the SDK", "k", {"a": "b"})
        theirs.create_producer(topic).send(b"from Apache's", properties={"c": "d"})
        async with client.consumer(topic, "ours", initial="earliest") as ours:
            seen = []
            async for message in ours:
                await ours.ack(message)
                seen.append((message.payload, dict(message.properties)))
                if len(seen) == 2:
                    break
    assert seen == [(b"from the SDK", {"a": "b"}), (b"from Apache's", {"c": "d"})]


async def test_the_sdk_is_refused_where_its_key_may_not(standalone: Standalone) -> None:
    with pytest.raises(AuthenticationFailed):
        async with magnetar.connect(standalone.ready["ws_url"], key="nonsense") as client:
            await client.producer("persistent://sdk/main/talk")


# --- upkeep and usage --------------------------------------------------------------------------------------------------------


def test_beat_expires_messages_past_their_ttl(rest: Rest, standalone: Standalone, stock: Stock) -> None:
    rest("POST", "/api/v1/tenants", {"name": "mayfly"}, expect=201)
    rest("POST", "/api/v1/tenants/mayfly/namespaces", {"name": "day", "policies": {"message_ttl_s": 1}}, expect=201)
    client = stock.client(standalone.admin_token)
    topic = "persistent://mayfly/day/light"
    client.subscribe(topic, "late").close()
    producer = client.create_producer(topic)
    for number in range(10):
        producer.send(str(number).encode())
    producer.close()

    def backlog() -> int:
        stats = rest("GET", "/admin/v2/persistent/mayfly/day/light/stats")
        return int(stats["subscriptions"]["late"]["msgBacklog"])

    eventually_sync(lambda: backlog() == 0, 20)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)  # Java starts, and a machine that runs other tests beside it is slow
def test_a_spark_run_turns_traffic_into_usage_that_the_console_shows(
    rest: Rest, standalone: Standalone, stock: Stock, browser: Browser, spark: None
) -> None:
    rest("POST", "/api/v1/tenants", {"name": "metered"}, expect=201)
    rest("POST", "/api/v1/tenants/metered/namespaces", {"name": "main"}, expect=201)
    client = stock.client(standalone.admin_token)
    consumer = client.subscribe("persistent://metered/main/traffic", "reader")
    producer = client.create_producer("persistent://metered/main/traffic")
    for _ in range(7):
        producer.send(bytes(1000))
    receive(consumer, 7)
    run_id = standalone.run_python("from workers.requests import request_usage_run; print(request_usage_run('a test'))")
    look = f"from workers.models import UsageRun; run = UsageRun.objects.get(run_id={run_id!r}); print(run.outcome, run.message)"

    def outcome() -> str:
        text = standalone.run_python(look)
        assert text.split()[0] not in ("requested", "running"), text
        return text

    assert eventually_sync(outcome, 240).startswith("succeeded"), standalone.output()[-4000:]
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    page = browser.get(f"/usage?day={day}&by=topic")
    row = re.search(r'<th scope="row">[^<]*metered/main/traffic</th>(.*?)</tr>', page, re.DOTALL)
    assert row, page
    columns = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', page)[1:]
    cells = dict(zip(columns, re.findall(r"<td[^>]*>(.*?)</td>", row[1], re.DOTALL), strict=True))
    assert (cells["Messages in"], cells["Messages out"]) == ("7", "7")
    assert float(cells["Bytes in"].split()[0]) > 0
