"""Telling apart who came upon a topic by looking for new ones."""

from __future__ import annotations

from messaging.broker.core.topics.discovery import NAMESPACES_MAX, ClientKey, Found, TopicDiscovery

HERE = ClientKey("reader@acme", "10.0.0.1", "acme/orders")


def test_a_peer_that_listed_before_and_after_has_found_the_topic() -> None:
    discovery: TopicDiscovery[str] = TopicDiscovery()
    assert discovery.listed("a", HERE, 100)
    assert discovery.found("a", HERE, 150) is Found.NOT, "it has not looked since"
    assert not discovery.listed("a", HERE, 200)
    assert [discovery.found("a", HERE, at_ms) for at_ms in (99, 100, 150, 200, 201)] == [
        Found.NOT,
        Found.ITSELF,
        Found.ITSELF,
        Found.ITSELF,
        Found.NOT,
    ]


def test_a_watching_peer_finds_everything_from_then_on() -> None:
    discovery: TopicDiscovery[str] = TopicDiscovery()
    discovery.watches("a", HERE, 100)
    assert (discovery.found("a", HERE, 99), discovery.found("a", HERE, 10**13)) == (Found.NOT, Found.ITSELF)


def test_another_connection_of_the_client_may_have_looked() -> None:
    discovery: TopicDiscovery[str] = TopicDiscovery()
    discovery.listed("a", HERE, 100), discovery.listed("a", HERE, 200)
    assert discovery.found("b", HERE, 150) is Found.ALIKE
    assert discovery.alike("b", HERE) == ["a"]
    for other in (HERE._replace(role="x"), HERE._replace(address="10.0.0.2"), HERE._replace(namespace="acme/strict")):
        assert discovery.found("b", other, 150) is Found.NOT
    discovery.listed("b", HERE, 160)
    assert discovery.found("b", HERE, 150) is Found.NOT, "its own looks count where there are any"


def test_nothing_is_kept_of_who_left_and_of_too_many_namespaces() -> None:
    discovery: TopicDiscovery[str] = TopicDiscovery()
    keys = [HERE._replace(namespace=f"acme/n{number}") for number in range(NAMESPACES_MAX + 1)]
    assert [discovery.watches("a", client_key, 0) for client_key in keys] == [True] * NAMESPACES_MAX + [False]
    discovery.left("a")
    discovery.left("a")
    assert {discovery.found("b", client_key, 5) for client_key in keys} == {Found.NOT}
