"""Rate limits and the stock Python client."""

from __future__ import annotations

import time

import pulsar
import pytest

from tests.compat.stock import Stock, receive
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

SLOW = 300  # messages at five a second: a minute
A_SECOND = 100


def path_of(topic: str) -> str:
    return f"/admin/v2/{topic.replace('://', '/')}"


def test_a_topic_at_its_limit_holds_up_nothing_else_of_its_connection(standalone: Standalone, stock: Stock, topic: str) -> None:
    """From Pulsar, everything else of the connection waits with it."""
    client = stock.client()
    slow, quick = client.create_producer(topic, batching_enabled=False), client.create_producer(f"{topic}-quick")
    consumer = client.subscribe(f"{topic}-quick", "s")
    rate = {"publishThrottlingRateInMsg": 5}
    assert standalone.http("POST", f"{path_of(topic)}/publishRate", rate, token=standalone.admin_token).status == 204
    stored: list[pulsar.Result] = []
    for number in range(SLOW):
        slow.send_async(b"%d" % number, lambda result, message_id: stored.append(result))
    for _ in range(20):
        quick.send(b"quick")
    receive(consumer, 20)
    assert len(stored) < SLOW, "the slow one is at it still"
    stats = standalone.http("GET", f"{path_of(topic)}/stats", token=standalone.admin_token).json()
    assert stats["publishers"][0]["waitingBytes"] > 0
    assert standalone.http("DELETE", f"{path_of(topic)}/publishRate", token=standalone.admin_token).status == 204
    began_s = time.monotonic()
    slow.flush()
    assert time.monotonic() - began_s < 25, "as long as half of them need at the rate"
    eventually_sync(lambda: stored == [pulsar.Result.Ok] * SLOW)


def test_a_subscription_with_a_rate_of_its_own_holds_up_no_other(standalone: Standalone, stock: Stock, topic: str) -> None:
    client = stock.client()
    slow, quick = client.subscribe(topic, "slow"), client.subscribe(topic, "quick")
    rate = {"dispatchThrottlingRateInMsg": 5, "ratePeriodInSecond": 1}
    answer = standalone.http("POST", f"{path_of(topic)}/slow/dispatchRate", rate, token=standalone.admin_token)
    assert answer.status == 204
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(100):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    assert len(receive(quick, 100)) == 100
    explained = standalone.http("GET", f"{path_of(topic)}/stats", token=standalone.admin_token).json()
    assert explained["subscriptions"]["slow"]["explanation"]["reason"] == "dispatch_rate_limit"
    assert standalone.http("DELETE", f"{path_of(topic)}/slow/dispatchRate", token=standalone.admin_token).status == 204
    assert len(receive(slow, 100)) == 100


def test_ten_seconds_of_a_dispatch_rate(standalone: Standalone, stock: Stock, topic: str) -> None:
    """Never more than the rate; less only where this machine is slow. What rates are exactly is tested in virtual time."""
    client = stock.client()
    consumer = client.subscribe(topic, "s")
    rate = {"dispatchThrottlingRateInMsg": A_SECOND, "ratePeriodInSecond": 1}
    assert standalone.http("POST", f"{path_of(topic)}/s/dispatchRate", rate, token=standalone.admin_token).status == 204
    began_s = time.monotonic()  # before anything is sent: what a client holds while this machine stands still came at the rate, too
    producer = client.create_producer(topic, batching_enabled=False, max_pending_messages=20 * A_SECOND)
    for number in range(12 * A_SECOND):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    receive(consumer, 11 * A_SECOND)  # a second's worth had accumulated, and came at once
    took_s = time.monotonic() - began_s
    assert 0.98 * 10 <= took_s < 45, took_s
