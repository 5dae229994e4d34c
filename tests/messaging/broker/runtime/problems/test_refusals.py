"""Clients that were refused because of their schema: told for a while, and until they get through."""

from __future__ import annotations

import pytest

from messaging.broker.runtime.problems import refusals as schema_refusals
from messaging.broker.runtime.problems.refusals import CLIENTS_MAX, KEPT_MS, TOPICS_MAX, SchemaRefusals
from messaging.protocol.names import parse_topic


class Owners(dict[str, str]):
    """namespace -> the uid of its tenant."""


APP = "producer app@acme 10.0.0.1"


def made_refusals() -> tuple[SchemaRefusals, Owners, list[int]]:
    now_ms, owners = [1_000], Owners({"acme/n": "first", "acme/other": "first"})
    return SchemaRefusals(lambda: now_ms[0], owners.get), owners, now_ms


def test_refusals_are_counted_by_topic_and_forgotten_after_a_while() -> None:
    refusals, _, now_ms = made_refusals()
    for partition in (0, 1):
        refusals.judged(
            parse_topic(f"persistent://acme/n/t-partition-{partition}"), APP, "the schema is not compatible: a is missing"
        )
    (problem,) = refusals.of("acme")
    assert problem.topic == "persistent://acme/n/t" and problem.since_ms == 1_000
    assert problem.sentence == "Clients were refused 2 times. The schema is not compatible: a is missing."
    for index in range(TOPICS_MAX):
        refusals.judged(parse_topic(f"persistent://acme/n/{index}"), APP, "no")
    assert len(refusals.of("acme")) == TOPICS_MAX
    now_ms[0] += KEPT_MS
    assert refusals.of("acme") == [] and refusals.tenants() == set() and refusals.count("acme") == 0


def test_a_refusal_is_over_once_those_that_were_refused_got_through() -> None:
    """It was told for ten minutes after the client had been mended."""
    refusals, _, now_ms = made_refusals()
    name, other = parse_topic("persistent://acme/n/t-partition-0"), "producer app@acme 10.0.0.2"
    refusals.judged(name, APP, "no")
    refusals.judged(name, other, "no")
    refusals.judged(name, "producer app@acme 10.0.0.3", "")  # that was never refused
    refusals.judged(name, APP, "")
    assert refusals.is_refused(str(name)), "another one still does not get through"
    now_ms[0] += KEPT_MS // 2
    refusals.judged(parse_topic("persistent://acme/n/t-partition-1"), other, "")
    assert not refusals.is_refused(str(name)) and refusals.tenants() == set() and refusals.count("acme") == 0
    refusals.judged(name, other, "")
    assert refusals.of("acme") == []


def test_of_more_clients_than_are_known_again_a_refusal_stays_for_its_while() -> None:
    refusals, _, now_ms = made_refusals()
    name, many = parse_topic("persistent://acme/n/t"), [f"producer app@acme 10.0.0.{index}" for index in range(CLIENTS_MAX + 2)]
    for refusal in ("no", ""):
        for client in many:
            refusals.judged(name, client, refusal)
    assert refusals.is_refused(str(name))
    now_ms[0] += KEPT_MS
    assert refusals.of("acme") == []


def test_refusals_of_all_tenants_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_refusals, "PLATFORM_TOPICS_MAX", 4)
    refusals, owners, _ = made_refusals()
    owners["initech/n"] = "other"
    for index in range(5):
        refusals.judged(parse_topic(f"persistent://acme/n/{index}"), APP, "no")
    refusals.judged(parse_topic("persistent://initech/n/t"), APP, "no")
    assert [problem.topic[-1] for problem in refusals.of("acme")] == ["2", "3", "4"] and len(refusals.of("initech")) == 1


def test_a_tenant_that_is_made_again_is_told_of_no_refusals_of_the_former_one() -> None:
    refusals, owners, _ = made_refusals()
    name = parse_topic("persistent://acme/n/secret")
    refusals.judged(name, APP, "no")
    assert refusals.is_refused(str(name)) and len(refusals.of("acme")) == 1
    owners["acme/n"] = "second"
    assert not refusals.is_refused(str(name)) and refusals.of("acme") == [] and refusals.tenants() == set()


def test_refusals_end_with_their_topic_and_namespace() -> None:
    refusals, owners, _ = made_refusals()
    for topic in ("n/a", "n/b-partition-0", "other/c", "other/d"):
        refusals.judged(parse_topic(f"persistent://acme/{topic}"), APP, "no")
    refusals.topic_deleted("persistent://acme/n/a")
    refusals.topic_deleted("persistent://acme/n/b-partition-1")
    refusals.topic_deleted("persistent://acme/n/never")
    assert [problem.topic for problem in refusals.of("acme")] == ["persistent://acme/other/c", "persistent://acme/other/d"]
    del owners["acme/other"]
    refusals.follow({("namespace", "acme/other")})
    assert refusals.tenants() == set()  # without having been asked
    owners["acme/other"] = "first"
    assert refusals.of("acme") == []
    refusals.judged(parse_topic("persistent://acme/other/c"), APP, "no")
    refusals.namespace_deleted("acme/n")
    assert len(refusals.of("acme")) == 1
    refusals.namespace_deleted("acme/other")
    assert refusals.of("acme") == []
    refusals.judged(parse_topic("persistent://acme/none/c"), APP, "no")  # of a namespace that is gone already
    assert refusals.tenants() == set()
