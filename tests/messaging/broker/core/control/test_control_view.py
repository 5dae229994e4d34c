"""The broker's snapshot of the control plane: what the feed brings, and what follows for who may do what."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.adminrpc.feed import FeedChange
from messaging.broker.core.control.view import ControlView
from messaging.permissions.decision import allowed
from messaging.permissions.model import ANONYMOUS, Action, Principal, Resource
from messaging.protocol.names import parse_topic

DEFAULTS = {"message_ttl_s": 0, "retention_time_min": 0, "retention_size_mb": 0, "auto_topic_creation": True}


def view(*, anonymous: bool = True) -> ControlView:
    return ControlView(superuser_roles=("admin",), policy_defaults=DEFAULTS, anonymous_public=anonymous)


def change(version: int, kind: str, key: str, state: dict[str, Any] | None) -> FeedChange:
    return FeedChange(version=version, kind=kind, key=key, state=state)


def test_changes_that_join_on_are_taken() -> None:
    control_view = view()
    assert control_view.apply(0, 2, [change(1, "tenant", "a", {}), change(2, "key", "k", {"revoked": False})], full=False) == {
        ("tenant", "a"),
        ("key", "k"),
    }
    assert control_view.version == 2
    assert control_view.key_revoked("k") is False
    assert control_view.key_revoked("other") is None


def test_a_gap_is_not_taken() -> None:
    control_view = view()
    assert control_view.apply(1, 2, [change(2, "tenant", "a", {})], full=False) == set()
    assert control_view.version == 0
    assert control_view.tenants == {}


def test_an_old_version_changes_nothing() -> None:
    control_view = view()
    control_view.apply(0, 5, [change(5, "key", "k", {"revoked": True})], full=False)
    assert control_view.apply(0, 4, [change(4, "key", "k", {"revoked": False})], full=False) == set()
    assert control_view.apply(0, 5, [change(4, "key", "k", {"revoked": False})], full=False) == set()
    assert control_view.key_revoked("k") is True


def test_only_the_new_part_of_an_overlap_is_taken() -> None:
    control_view = view()
    control_view.apply(0, 5, [change(5, "key", "k", {"revoked": True})], full=False)
    overlap = [change(4, "key", "k", {"revoked": False}), change(6, "key", "l", {"revoked": False})]
    assert control_view.apply(3, 6, overlap, full=False) == {("key", "l")}
    assert control_view.key_revoked("k") is True


def test_everything_replaces_everything() -> None:
    control_view = view()
    control_view.apply(0, 1, [change(1, "tenant", "a", {}), change(1, "key", "k", {"revoked": False})], full=True)
    assert control_view.apply(0, 9, [change(9, "tenant", "b", {})], full=True) == {("tenant", "a"), ("key", "k"), ("tenant", "b")}
    assert set(control_view.tenants) == {"b"}
    assert control_view.key_revoked("k") is None
    assert control_view.version == 9


def test_deletion_and_kinds_of_a_newer_control_plane() -> None:
    control_view = view()
    control_view.apply(0, 1, [change(1, "tenant", "a", {})], full=False)
    control_view.apply(1, 3, [change(2, "tenant", "a", None), change(3, "galaxy", "g", {})], full=False)
    assert control_view.tenants == {}
    assert control_view.version == 3


@given(
    st.lists(st.tuples(st.sampled_from(["tenant", "namespace", "key"]), st.sampled_from("abc"), st.booleans()), max_size=12),
    st.data(),
)
def test_any_split_of_the_feed_gives_one_view(changes: list[tuple[str, str, bool]], data: st.DataObject) -> None:
    """Pushed in pieces, pulled with overlaps, or from a dump: the state is the same."""
    feed = [change(index, kind, key, {"n": index} if there else None) for index, (kind, key, there) in enumerate(changes, 1)]
    whole, pieces = view(), view()
    whole.apply(0, len(feed), feed, full=True)
    while pieces.version < len(feed):
        begin = data.draw(st.integers(0, pieces.version))
        stop = data.draw(st.integers(pieces.version + 1, len(feed)))
        pieces.apply(begin, stop, feed[begin:stop], full=False)
    copy = view()
    copy.apply(0, whole.version, whole.dump(), full=True)
    for other in (pieces, copy):
        assert (other.tenants, other.namespaces, other.keys, other.version) == (
            whole.tenants,
            whole.namespaces,
            whole.keys,
            whole.version,
        )


def filled(*, anonymous: bool = True) -> ControlView:
    control_view = view(anonymous=anonymous)
    control_view.apply(
        0,
        1,
        [
            change(1, "tenant", "public", {"admin_roles": []}),
            change(1, "tenant", "acme", {"admin_roles": ["boss@acme"]}),
            change(1, "namespace", "public/default", {}),
            change(
                1,
                "namespace",
                "acme/orders",
                {
                    "grants": {"writer@acme": ["produce"]},
                    "topic_grants": {"persistent://acme/orders/t": {"reader@acme": ["consume"]}},
                    "subscription_roles": {"audit": ["auditor@acme"]},
                    "policies": {"retention_time_min": 5},
                },
            ),
        ],
        full=True,
    )
    return control_view


def topic(text: str, subscription: str = "") -> Resource:
    tenant, namespace = text.removeprefix("persistent://").split("/")[:2]
    return Resource(tenant, f"{tenant}/{namespace}", text, subscription)


T = "persistent://acme/orders/t"


@pytest.mark.parametrize(
    ("role", "action", "resource", "may"),
    [
        ("admin", Action.PRODUCE, topic(T), True),
        ("boss@acme", Action.CONSUME, topic(T), True),
        ("writer@acme", Action.PRODUCE, topic(T), True),
        ("writer@acme", Action.CONSUME, topic(T), False),
        ("writer@acme", Action.LOOKUP, topic(T), True),
        ("reader@acme", Action.CONSUME, topic(T), True),
        ("reader@acme", Action.CONSUME, topic(T + "-partition-3"), True),  # a partition inherits
        ("reader@acme", Action.CONSUME, topic(T + "2"), False),
        ("reader@acme", Action.CONSUME, topic(T, "audit"), False),  # the subscription is another role's
        ("stranger@other", Action.LOOKUP, topic(T), False),
        (ANONYMOUS, Action.PRODUCE, topic(T), False),
        (ANONYMOUS, Action.PRODUCE, topic("persistent://public/default/x"), True),
        (ANONYMOUS, Action.TENANT_ADMIN, Resource("public", "public/default"), False),
    ],
)
def test_roles_may_what_their_grants_say(role: str, action: Action, resource: Resource, may: bool) -> None:
    assert allowed(filled(), Principal(role), action, resource) is may


def test_anonymous_may_nothing_where_it_is_turned_off() -> None:
    assert not allowed(filled(anonymous=False), Principal(ANONYMOUS), Action.PRODUCE, topic("persistent://public/default/x"))


def test_policies_come_from_the_nearest_level() -> None:
    control_view = filled()
    assert control_view.policy("retention_time_min", "acme/orders") == (5, "namespace")
    assert control_view.policy("message_ttl_s", "acme/orders") == (0, "broker")
    assert control_view.policy("retention_size_mb", "acme/orders") == (0, "broker")
    assert control_view.policy("message_ttl_s", "no/such") == (0, "broker")


def test_a_policy_that_was_asked_for_follows_every_change() -> None:
    control_view = filled()
    name, version = ("message_ttl_s", "acme/orders"), control_view.version
    assert control_view.policy(*name) == (0, "broker")
    nearer = FeedChange(version=version + 1, kind="namespace", key="acme/orders", state={"policies": {"message_ttl_s": 7}})
    control_view.apply(version, version + 1, [nearer], full=False)
    assert control_view.policy(*name) == (7, "namespace")
    control_view.apply(0, version + 2, [], full=True)
    assert control_view.policy(*name) == (0, "broker")


def test_policies_of_a_topic_apply_to_its_partitions_and_end_with_it() -> None:
    control_view = filled()
    version, name = control_view.version, parse_topic(T)
    of_topic = {"policies": {"message_ttl_s": 9}, "subscriptions": {"s": {"subscription_dispatch_rate_messages": 4}}}
    of_namespace = {"policies": {"message_ttl_s": 7, "retention_time_min": 5}}
    changes = [
        FeedChange(version=version + 1, kind="namespace", key="acme/orders", state=of_namespace),
        FeedChange(version=version + 1, kind="topic", key=T, state=of_topic),
    ]
    control_view.apply(version, version + 1, changes, full=False)
    for each in (name, name.of_partition(3)):
        assert control_view.policy("message_ttl_s", "acme/orders", each) == (9, "topic")
        assert control_view.policy("message_ttl_s", "acme/orders", each) == (9, "topic"), "as it is remembered"
        assert control_view.policy("retention_time_min", "acme/orders", each) == (5, "namespace")
    assert control_view.policy("message_ttl_s", "acme/orders", parse_topic(f"{T}-other")) == (7, "namespace")
    assert control_view.policy("message_ttl_s", "acme/orders") == (7, "namespace")
    rate = "subscription_dispatch_rate_messages"
    assert control_view.policy_of_subscription(rate, name.of_partition(1), "s") == (4, "subscription")
    assert control_view.policy_of_subscription("message_ttl_s", name, "another") == (9, "topic")
    gone = FeedChange(version=version + 2, kind="topic", key=T, state=None)
    control_view.apply(version + 1, version + 2, [gone], full=False)
    assert control_view.policy("message_ttl_s", "acme/orders", name) == (7, "namespace")
    control_view.apply(0, version + 3, [changes[1]], full=True)
    assert control_view.policy("message_ttl_s", "acme/orders", name) == (9, "topic")
    control_view.apply(0, version + 4, [], full=True)
    assert control_view.policy("message_ttl_s", "acme/orders", name) == (0, "broker")


def test_policies_of_topics_are_not_in_force_where_they_are_disabled() -> None:
    changes = [
        FeedChange(version=1, kind="namespace", key="acme/orders", state={"policies": {"message_ttl_s": 7}}),
        FeedChange(version=1, kind="topic", key=T, state={"policies": {"message_ttl_s": 9}}),
    ]
    for enabled, expected in ((True, (9, "topic")), (False, (7, "namespace"))):
        control_view = ControlView(superuser_roles=(), policy_defaults={}, anonymous_public=False, topic_policies=enabled)
        control_view.apply(0, 1, changes, full=True)
        assert control_view.policy("message_ttl_s", "acme/orders", parse_topic(T)) == expected
        assert ("topic", T) in {(kind, key) for kind, key, _ in control_view.entities()}, "they are kept for when they are enabled"


def test_asking_for_namespaces_that_are_not_there_leaves_nothing_behind() -> None:
    control_view = filled()
    for number in range(1000):
        control_view.policy("message_ttl_s", f"no/such-{number}")
    assert not control_view.resolved_policies


def test_a_setting_that_was_changed_comes_before_the_configured_one() -> None:
    control_view = view()
    before = control_view.policy("message_ttl_s", "a/b")
    changed = control_view.apply(0, 2, [change(1, "broker", "all", {"settings": {"message_ttl_s": 60, "of_later": 1}})], full=False)
    assert changed == {("broker", "all")} and (before.value, control_view.policy("message_ttl_s", "a/b").value) == (0, 60)
    control_view.apply(2, 3, [change(3, "namespace", "a/b", {"policies": {"message_ttl_s": 5}})], full=False)
    assert control_view.policy("message_ttl_s", "a/b").value == 5
    control_view.apply(0, 4, [], full=True)
    assert control_view.policy("message_ttl_s", "a/b").value == 0


def test_a_key_of_a_scope_and_of_networks() -> None:
    control_view = view()
    uses = [{"actions": ["produce"], "namespace": "acme/orders", "topics": "pay-*"}]
    state = {"role": "app@acme", "tenant": "acme", "scope": uses, "networks": ["192.0.2.0/24"], "expires_ms": 1_000}
    namespace = {"grants": {"app@acme": ["produce", "consume"]}}
    changes = [change(1, "tenant", "acme", {}), change(2, "namespace", "acme/orders", namespace), change(3, "key", "k", state)]
    control_view.apply(0, 3, changes, full=False)

    def may(action: Action, topic: str, key_id: str = "k") -> bool:
        resource = Resource("acme", "acme/orders", f"persistent://acme/orders/{topic}")
        return allowed(control_view, Principal("app@acme", key_id), action, resource)

    assert may(Action.PRODUCE, "pay-in") and may(Action.PRODUCE, "pay-in-partition-3") and may(Action.LOOKUP, "pay-in")
    assert not may(Action.PRODUCE, "ship") and not may(Action.CONSUME, "pay-in")
    assert may(Action.CONSUME, "pay-in", "another")  # a key of the same role, without a scope
    assert control_view.key_refusal("k", "192.0.2.9", 999) == ""
    for address in ("198.51.100.1", "", "somewhere"):
        assert "may not be used from" in control_view.key_refusal("k", address, 999)
    assert "has expired" in control_view.key_refusal("k", "192.0.2.9", 1_000)
    assert control_view.key_refusal("another", "", 5) == ""
