"""What stock clients do, as the broker meters it: connections, delayed messages, redeliveries, by subscription and key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import duckdb
import pulsar
import pytest

from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.finding import BrokerChoice
from messaging.adminrpc.methods import USAGE_FLUSH
from messaging.adminrpc.usage import UsageFlush
from messaging.identity import service_token
from messaging.settings import Settings
from tests.compat.stock import RECEIVE_MS, Stock, receive
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]
TOPIC = "persistent://measured/main/traffic"
LAST = "arg_max(value, seq)"
Found = dict[tuple[str, str, str], int]  # by meter, subscription and the name of the key


@pytest.fixture
def keys(standalone: Standalone) -> dict[str, tuple[str, str]]:
    """By name: id and token."""

    def post(path: str, body: object) -> dict[str, str]:
        answer = standalone.http("POST", f"/api/v1/{path}", body, standalone.admin_token)
        assert answer.status == 201, answer.text
        key: dict[str, str] = answer.json()
        return key

    post("tenants", {"name": "measured", "admin_roles": ["sender@measured", "taker@measured"]})
    post("tenants/measured/namespaces", {"name": "main"})
    made = {name: post("tenants/measured/keys", {"name": name}) for name in ("sender", "taker")}
    return {name: (key["id"], key["token"]) for name, key in made.items()}


@pytest.fixture
def rpc(standalone: Standalone) -> Iterator[AdminRpc]:
    settings = Settings(data_dir=str(standalone.folder))
    with closing(AdminRpc(BrokerChoice(settings).rpc_url, lambda: service_token(settings, "worker"))) as rpc:
        yield rpc


def test_connections_delayed_and_redelivered_messages_are_metered_by_subscription_and_key(
    standalone: Standalone, stock: Stock, keys: dict[str, tuple[str, str]], rpc: AdminRpc
) -> None:
    names = {key_id: name for name, (key_id, _) in keys.items()} | {"": ""}

    def metered(value: str) -> Found:
        """Sums of counters, or the last values of gauges, of what is in files now."""
        rpc.call(USAGE_FLUSH, UsageFlush(task_id="a test"))
        files = f"{standalone.folder}/usage/raw/date=*/*/*.parquet"
        relation = duckdb.sql(
            f"select meter, subscription, key, {value}::bigint from read_parquet('{files}') "
            "where tenant = 'measured' and meter != 'api_calls' group by all"
        )
        assert relation is not None
        return {(meter, subscription, names[key]): number for meter, subscription, key, number in relation.fetchall()}

    sender, taker = (stock.client(keys[name][1]) for name in ("sender", "taker"))
    consumer = taker.subscribe(TOPIC, "late", pulsar.ConsumerType.Shared)
    producer = sender.create_producer(TOPIC)
    for number in range(5):
        producer.send(b"%d" % number)
    for _ in range(3):
        producer.send(b"tomorrow", deliver_after=timedelta(hours=20))
    for _ in range(5):
        consumer.receive(RECEIVE_MS)
    consumer.redeliver_unacknowledged_messages()
    receive(consumer, 5)
    assert eventually_sync(lambda: metered(LAST).get(("subscription_delayed_entries", "late", "")) == 3, 20)
    used = metered(LAST)
    assert (used["connections", "", "sender"], used["connections", "", "taker"]) == (1, 1)
    counted = metered("sum(value)")
    assert counted["client_messages_in", "", "sender"] == counted["messages_in", "", ""] == 8
    assert counted["client_messages_out", "late", "taker"] == counted["messages_out", "", ""] == 10
    assert counted["client_messages_redelivered", "late", "taker"] == 5
    assert ("client_messages_redelivered", "", "sender") not in counted
    taker.close()
    assert eventually_sync(lambda: metered(LAST)["connections", "", "taker"] == 0, 20)  # the last record says that there is none
    assert metered(LAST)["connections", "", "sender"] == 1
