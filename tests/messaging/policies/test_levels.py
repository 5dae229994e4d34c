"""Random policies at random levels, changed in any order: the value in force is always the one that a plain model says."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.adminrpc.feed import FeedChange
from messaging.broker.core.control.view import ControlView
from messaging.policies.effective import in_force
from messaging.policies.model import Level, Policy
from messaging.policies.registry import ENFORCED, POLICIES
from messaging.policies.resolution import defaults
from messaging.protocol.names import TopicName, parse_topic
from messaging.settings import Settings
from tests.support.examples import examples

BROKER = defaults(Settings())
NAMESPACES = ("acme/a", "acme/b", "other/a")
TOPICS = [parse_topic(f"persistent://{namespace}/{local}") for namespace in NAMESPACES for local in ("t", "p")]
SUBSCRIPTIONS = ("s", "other")
NEAREST_FIRST = (Level.SUBSCRIPTION, Level.TOPIC, Level.NAMESPACE, Level.TENANT)
LEVEL_OF = {"tenant": Level.TENANT, "namespace": Level.NAMESPACE, "topic": Level.TOPIC}
Place = tuple[str, str]  # what is set, by namespace, topic or topic and subscription


def values_of(policy: Policy) -> st.SearchStrategy[Any]:
    """Mostly values that it can have; some that an earlier release may have stored and it cannot have."""
    schema = msgspec.json.schema(policy.kind)
    match schema.get("type"):
        case "boolean":
            valid: st.SearchStrategy[Any] = st.booleans()
        case "integer":
            valid = st.integers(schema["minimum"], schema["minimum"] + 3)
        case "number":
            valid = st.floats(0, 3)
        case "array":
            valid = st.lists(st.sampled_from(schema["items"].get("enum", ["key", "$.a"])), max_size=2)
        case "object":
            valid = st.dictionaries(st.sampled_from("ab"), st.sampled_from("cd"))
        case _:
            valid = st.sampled_from(schema.get("enum", ["", "text"]))
    return st.one_of(valid, valid, valid, st.just("nonsense of long ago"), st.none())


SOME = st.sampled_from(sorted(POLICIES)).flatmap(lambda name: st.tuples(st.just(name), values_of(POLICIES[name])))
HELD = st.lists(SOME, max_size=4).map(dict)


def is_valid(policy: Policy, value: Any) -> bool:
    try:
        msgspec.convert(value, policy.kind)
    except msgspec.ValidationError:
        return False
    return True


class Model:
    """The obvious thing: a dictionary for each place, asked from the nearest on."""

    def __init__(self) -> None:
        self.set: dict[tuple[Level, str], dict[str, Any]] = {}

    def value(self, name: str, topic: TopicName, subscription: str = "") -> tuple[Any, Level]:
        whole = str(topic).partition("-partition-")[0]
        places = {
            Level.SUBSCRIPTION: f"{whole} {subscription}",
            Level.TOPIC: whole,
            Level.NAMESPACE: f"{topic.tenant}/{topic.namespace_local}",
            Level.TENANT: topic.tenant,
        }
        for level in NEAREST_FIRST:
            value = self.set.get((level, places[level]), {}).get(name)
            if value is not None and level in POLICIES[name].levels and is_valid(POLICIES[name], value):
                return value, level
        return BROKER[name], Level.BROKER


CHANGES = st.one_of(
    st.tuples(st.just("tenant"), st.sampled_from(["acme", "other"]), HELD | st.none(), st.just({})),
    st.tuples(st.just("namespace"), st.sampled_from(NAMESPACES), HELD | st.none(), st.just({})),
    st.tuples(
        st.just("topic"),
        st.sampled_from([str(name) for name in TOPICS]),
        HELD | st.none(),
        st.dictionaries(st.sampled_from(SUBSCRIPTIONS), HELD),
    ),
)


@settings(max_examples=examples(150), deadline=None)
@given(changes=st.lists(CHANGES, min_size=1, max_size=8), name=st.sampled_from(sorted(POLICIES)), full=st.booleans())
def test_the_nearest_level_wins(changes: list[tuple[str, str, Any, Any]], name: str, full: bool) -> None:
    view, model = ControlView(superuser_roles=(), policy_defaults=BROKER, anonymous_public=False), Model()
    for version, (kind, key, policies, subscriptions) in enumerate(changes, 1):
        state = (
            None if policies is None else {"policies": policies, **({"subscriptions": subscriptions} if kind == "topic" else {})}
        )
        view.apply(version - 1, version, [FeedChange(version=version, kind=kind, key=key, state=state)], full=False)
        model.set[LEVEL_OF[kind], key] = {} if state is None else state["policies"]
        if kind == "topic":
            for subscription in SUBSCRIPTIONS:
                model.set[Level.SUBSCRIPTION, f"{key} {subscription}"] = (
                    {} if state is None else subscriptions.get(subscription, {})
                )
        check(view, model, name)
    if full:  # as after a restart, or when the broker was away for long
        again = ControlView(superuser_roles=(), policy_defaults=BROKER, anonymous_public=False)
        again.apply(0, view.version, view.dump(), full=True)
        check(again, model, name)


def check(view: ControlView, model: Model, name: str) -> None:
    for topic in TOPICS:
        namespace = str(topic.namespace)
        for part in (topic, topic.of_partition(2)):
            assert view.policy(name, namespace, part) == model.value(name, part)
            for subscription in SUBSCRIPTIONS:
                assert view.policy_of_subscription(name, part, subscription) == model.value(name, part, subscription)


@settings(max_examples=examples(), deadline=None)
@given(tenant=HELD, namespace=HELD, topic=HELD, subscription=HELD)
def test_shown_policies_are_those_in_force(
    tenant: dict[str, Any], namespace: dict[str, Any], topic: dict[str, Any], subscription: dict[str, Any]
) -> None:
    levels = {Level.TENANT: tenant, Level.NAMESPACE: namespace, Level.TOPIC: topic, Level.SUBSCRIPTION: subscription}
    model, name = Model(), TOPICS[0]
    model.set = {
        (Level.TENANT, name.tenant): tenant,
        (Level.NAMESPACE, str(name.namespace)): namespace,
        (Level.TOPIC, str(name)): topic,
        (Level.SUBSCRIPTION, f"{name} s"): subscription,
    }
    effective = in_force(levels, BROKER, Level.TOPIC)
    assert [policy_in_force.policy.name for policy_in_force in effective] == list(ENFORCED)
    for policy_in_force in effective:
        assert (policy_in_force.value, policy_in_force.level) == model.value(policy_in_force.policy.name, name, "s")
        assert policy_in_force.text
        assert msgspec.json.encode((policy_in_force.value, policy_in_force.text, dict(policy_in_force.set_at)))
        for level, value in policy_in_force.set_at.items():
            assert levels[level][policy_in_force.policy.name] == value
