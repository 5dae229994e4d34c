from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from docs.generate import metrics_page
from messaging.metrics import METRICS, Metric, Sample, exposition

TOPIC = ("acme", "acme/orders", "persistent://acme/orders/new")


def read(text: bytes) -> dict[str, float]:
    values = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            values[sample.name + "".join(f",{k}={v}" for k, v in sorted(sample.labels.items()))] = sample.value
    return values


def test_samples_come_out_in_prometheus_format() -> None:
    text = exposition(
        [Sample("magnetar_messages_in_total", 3), Sample("magnetar_connections_refused_total", 1, ('no "token"\n',))], private=False
    )
    assert read(text) == {"magnetar_messages_in_total": 3, 'magnetar_connections_refused_total,reason=no "token"\n': 1}
    assert b"# TYPE magnetar_messages_in_total counter" in text and b"# HELP magnetar_messages_in_total Messages stored" in text


def test_names_of_tenants_are_only_in_private_answers() -> None:
    samples = [Sample("magnetar_topic_messages_in_total", 3, TOPIC), Sample("magnetar_messages_in_total", 3)]
    assert b"acme" not in exposition(samples, private=False)
    assert (
        read(exposition(samples, private=True))[
            "magnetar_topic_messages_in_total,namespace=acme/orders,tenant=acme,topic=persistent://acme/orders/new"
        ]
        == 3
    )


def test_a_sample_that_is_not_in_the_table_is_an_error() -> None:
    with pytest.raises(KeyError, match="magnetar_surprise"):
        exposition([Sample("magnetar_surprise", 1)], private=True)
    with pytest.raises(ValueError, match="labels"):
        exposition([Sample("magnetar_messages_in_total", 1, ("extra",))], private=True)


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_each_metric_is_well_formed(metric: Metric) -> None:
    assert re.fullmatch(r"magnetar_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.meaning.endswith(".")
    assert metric.unit != "bytes" or "bytes" in metric.name
    assert metric.unit != "s" or "seconds" in metric.name
    assert metric.private == any(label in ("tenant", "namespace", "topic", "subscription") for label in metric.labels)


def test_the_page_names_every_metric_once() -> None:
    page = metrics_page()
    assert [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")] == list(METRICS)
