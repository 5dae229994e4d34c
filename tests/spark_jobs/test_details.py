"""API calls and connections, and whose part of an hour's usage it was: by subscription and key, a bounded number for a topic."""

from __future__ import annotations

import json

from messaging.broker.usage.record import UsageRecord
from messaging.usage_schema import series_name
from spark_jobs.details import PARTS_OF_TOPIC_MAX, detail_rows
from spark_jobs.rows import ATTRIBUTES
from tests.spark_jobs.job import Job
from tests.spark_jobs.usage_files import NOON_MS, record, write_all

NEW = "persistent://acme/orders/new"


def about(
    meter: str, value: int, namespace: str, topic: str, key: str, at_ms: int = NOON_MS, subscription: str = ""
) -> UsageRecord:
    series = series_name(meter, "u", topic or namespace, subscription, key)
    usage_record = record(meter, value, at_ms, tenant_uid="u")
    return usage_record._replace(series=series, namespace=namespace, topic=topic, subscription=subscription, key=key)


def test_api_calls_and_connections_are_whole_and_their_parts_by_key_beside(job: Job) -> None:
    write_all(
        [
            about("api_calls", 3, "acme/orders", NEW, "k1"),
            about("api_calls", 4, "acme/orders", NEW, "k2"),
            about("api_calls", 5, "acme/orders", "", "k1"),
            about("api_calls", 6, "acme/sensors", "", "k1"),
            about("connections", 2, "", "", "k1"),
            about("connections", 1, "", "", "k2"),
            about("client_messages_out", 8, "acme/orders", NEW, "k2", subscription="s"),
            about("client_messages_redelivered", 1, "acme/orders", NEW, "k2", subscription="s"),
            about("subscription_backlog_entries", 2, "acme/orders", NEW, "", subscription="s"),
            about("subscription_delayed_entries", 1, "acme/orders", NEW, "", subscription="s"),
            about("api_calls", 9, "globex/orders", "", "k1"),  # the namespace of another tenant
        ],
        job.raw,
    )
    result = job.run()
    assert result.quarantined == {"invalid": 1}
    [(_, rows)] = job.current.values()
    assert [(row[3], row[4], *row[11:]) for row in rows] == [
        ("", "", 0, 3 * 60), ("acme/orders", "", 5, 0), ("acme/sensors", "", 6, 0), ("acme/orders", NEW, 7, 0),
    ]  # fmt: skip
    (details,) = (job.directory / "hours/load_run_id=0001/details").glob("*.json")
    shown = [json.loads(line) for line in details.read_text().splitlines()]
    told = [
        {name: value for name, value in row.items() if value and name not in ("tenant", "tenant_uid", "hour_start_ms")}
        for row in shown
    ]
    assert told == [
        {"key": "k1", "connection_seconds": 120},
        {"key": "k2", "connection_seconds": 60},
        {"namespace": "acme/orders", "key": "k1", "api_calls": 5},
        {"namespace": "acme/orders", "topic": NEW, "key": "k1", "api_calls": 3},
        {"namespace": "acme/orders", "topic": NEW, "key": "k2", "api_calls": 4},
        {"namespace": "acme/orders", "topic": NEW, "subscription": "s", "backlog_entry_seconds": 120, "delayed_entry_seconds": 60},
        {"namespace": "acme/orders", "topic": NEW, "subscription": "s", "key": "k2", "messages_out": 8, "messages_redelivered": 1},
        {"namespace": "acme/sensors", "key": "k1", "api_calls": 6},
    ]
    assert [hour.detail_rows for hour in result.hours] == [len(shown)]


def test_of_very_many_parts_the_smaller_are_one_row_that_says_how_many() -> None:
    keys = [("acme", "acme/orders", NEW, "client_messages_in", "u", "", f"k{number:03}") for number in range(60)]
    amounts: dict[tuple[str, ...], int] = {key: 1000 - number for number, key in enumerate(keys)}
    assert len(dict(zip(ATTRIBUTES, keys[0], strict=True))) == len(keys[0])
    rows = detail_rows(amounts, NOON_MS)
    others, *named = rows
    assert len(named) == PARTS_OF_TOPIC_MAX and [row[5:8] for row in named[:1]] == [("", "k000", 0)]
    assert others[5:9] == ("", "", 10, sum(1000 - number for number in range(50, 60)))
    assert sum(row[8] for row in rows) == sum(amounts.values())
