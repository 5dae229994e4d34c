"""Names: one parsed value for every spelling, and nothing that two readers could take for two things."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from messaging.errors import InvalidName, InvalidSubscriptionName
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import TopicName, entity_name, parse_namespace, parse_topic, subscription_name

ENTITY = st.text(string.ascii_letters + string.digits + "-=:._", min_size=1, max_size=12).filter(
    lambda text: text not in (".", "..")
)
LOCAL = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/%"), min_size=1, max_size=40)


@given(ENTITY, ENTITY, LOCAL)
def test_spellings_of_one_topic_are_one_value(tenant: str, namespace: str, local: str) -> None:
    name = TopicName("persistent", tenant, namespace, local)
    assert parse_topic(f"persistent://{tenant}/{namespace}/{local}") == name
    assert parse_topic(f"{tenant}/{namespace}/{local}") == name
    assert str(name) == f"persistent://{tenant}/{namespace}/{local}"
    assert str(parse_namespace(f"{tenant}/{namespace}")) == f"{tenant}/{namespace}" == str(name.namespace)


def test_a_local_name_alone_is_in_public_default() -> None:
    assert parse_topic("orders") == TopicName("persistent", "public", "default", "orders")
    assert parse_topic("non-persistent://a/b/c") == TopicName("non-persistent", "a", "b", "c")
    assert not parse_topic("non-persistent://a/b/c").persistent


@given(st.one_of(st.text(max_size=60), st.from_regex(r"(persistent://)?a/b/[%0-9A-Fa-f/x-]{1,12}", fullmatch=True)))
@example("persistent://t/n/a%2520b")
@example("persistent://t/n/%25")
@example("persistent://t/n/%ff")
def test_a_parsed_name_parses_to_itself(text: str) -> None:
    """Authorise and act on the same value: whoever parses what was parsed before must not see another topic."""
    try:
        name = parse_topic(text)
    except InvalidName:
        return
    assert parse_topic(str(name)) == name
    assert parse_topic(str(name.base)).base == name.base
    assert "/" not in name.local


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "a/b",
        "a/b/",
        "a//c",
        "/b/c",
        "a/b/c/d",
        "http://a/b/c",
        "persistent://",
        "persistent://a/b",
        "persistent:///b/c",
        "persistent://a/../c",
        "persistent://./b/c",
        "persistent://a b/c/d",
        "persistent://ä/b/c",
        "persistent://a/b/c%2Fd",
        "persistent://a/b/c%00d",
        "persistent://a/b/c%0ad",
        "persistent://a/b/c\nd",
        "persistent://a/b/c\u202ed",
        "persistent://a/b/%ff",
        "persistent://a/b/a%2520b",
        "persistent://a/b/" + "x" * 256,
        "persistent://" + "a" * 256 + "/b/c",
    ],
)
def test_names_that_are_no_topics_are_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_topic(text)


@pytest.mark.parametrize("text", ["", "a", "a/b/c", "a/", "/b", "a/..", "a\n/b", "a/b\n"])
def test_names_that_are_no_namespaces_are_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_namespace(text)


@pytest.mark.parametrize(
    ("local", "index", "base"),
    [
        ("t-partition-0", 0, "t"),
        ("t-partition-12", 12, "t"),
        ("t-partition-999999", 999999, "t"),
        ("t-partition-1-partition-2", 2, "t-partition-1"),
        ("t", -1, "t"),
        ("-partition-3", -1, "-partition-3"),
        ("t-partition-", -1, "t-partition-"),
        ("t-partition-07", -1, "t-partition-07"),  # else two names of one partition
        ("t-partition-٣", -1, "t-partition-٣"),  # a digit, but not one of ours
        ("t-partition-1000000", -1, "t-partition-1000000"),
        ("t-partition--1", -1, "t-partition--1"),
    ],
)
def test_partitions(local: str, index: int, base: str) -> None:
    name = TopicName("persistent", "a", "b", local)
    assert name.partition == index
    assert name.base == name._replace(local=base)
    if index >= 0:
        assert name.base.of_partition(index) == name


@pytest.mark.parametrize("text", ["", "a\nb", "\x00", "x" * 256, "pulsar.repl.east", "pulsar.dedup"])
def test_names_that_are_no_subscriptions_are_refused(text: str) -> None:
    with pytest.raises(InvalidSubscriptionName) as refused:
        subscription_name(text)
    assert refused.value.wire_code == pb.ProducerBusy  # after which clients do not try again, as they do after InvalidTopicName


@pytest.mark.parametrize("text", ["s", "a b", "a/b", "%25", "é", "x" * 255])
def test_subscriptions_may_have_any_printable_name(text: str) -> None:
    assert subscription_name(text) == text


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "a b", "a%20b", "é", "x" * 256, "a\n"])
def test_names_that_are_no_entities_are_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        entity_name("tenant", text)
