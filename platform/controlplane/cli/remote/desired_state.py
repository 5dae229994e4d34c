"""What a file says a tenant should have, and how it differs from what the tenant has. Pure: no file, no network.

::

    tenant: acme
    policies: {}
    labels: {team: payments}
    language: de
    namespaces:
      orders:
        policies: {retention_time_min: 60}
        grants: {app@acme: [consume, produce]}
        topics:
          new:
            partitions: 4
            schema: {type: JSON, schema: {type: record, name: order, fields: []}}
            policies: {message_ttl_s: 3600}
            properties: {team: payments}
            grants: {}
            subscriptions:
              billing: {properties: {}}
    keys:
      app:
        expires_at: 2027-01-01T00:00:00Z
        scope: [{actions: [produce], namespace: orders, topics: new}]
        networks: [192.0.2.0/24]
    roles:
      keeper: {description: keeps keys, actions: [key_admin, produce]}
    members:
      ann: {role: developer, namespace: orders, topics: new-*}
      bob: viewer
    teams:
      payments: {roles: [{role: keeper}], members: [ann]}

What the file does not name is left alone: a namespace, a topic, a field. Within a field that it names, what is not there is
removed: a policy, a grant, a role or member of a team. `prune` also deletes topics and subscriptions of the namespaces that it
names, and revokes keys, deletes roles and teams, and removes members, each if it names any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from controlplane.cli.remote.desired_parts import Change, Json, WrongFile, field_change, named, object_of, texts_of
from controlplane.cli.remote.desired_rights import Rights, exported_rights, parsed_rights, removed_rights, rights_changes
from controlplane.cli.remote.desired_schemas import parsed_schema, schema_changes, shown_schema
from messaging.languages import LANGUAGES

KEY_FIELDS = ("expires_at", "scope", "networks")
USE_FIELDS = ("actions", "namespace", "topics")
RIGHTS = ("roles", "members", "teams")


@dataclass
class Subscription:
    properties: dict[str, str] | None = None


@dataclass
class Topic:
    """None: the file does not say."""

    partitions: int | None = None
    policies: Json | None = None
    properties: dict[str, str] | None = None
    grants: dict[str, list[str]] | None = None
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    schemas: list[Json] = field(default_factory=list)  # versions, newest last; of a file the one that it says


@dataclass
class Namespace:
    policies: Json | None = None
    grants: dict[str, list[str]] | None = None
    topics: dict[str, Topic] = field(default_factory=dict)


@dataclass
class Tenant:
    """`keys`: by name, several where one replaces another; of each its `KEY_FIELDS` that the file says, or all."""

    name: str
    policies: Json | None = None
    labels: dict[str, str] | None = None
    language: str | None = None
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    keys: dict[str, list[Json]] = field(default_factory=dict)
    rights: Rights = field(default_factory=Rights)


# --- reading ---------------------------------------------------------------------------------------------------------------------


def parsed(document: Any) -> Tenant:
    """Raises `WrongFile` that names the place."""
    top = object_of(document, "the file", ("tenant", "policies", "labels", "language", "namespaces", "keys", *RIGHTS))
    if not isinstance(top.get("tenant"), str) or not top["tenant"]:
        raise WrongFile("tenant is missing: name the tenant")
    tenant = Tenant(top["tenant"], _policies(top, ""), texts_of(top, "", "labels"), _language(top))
    for name, given in named(top.get("namespaces"), "namespaces"):
        tenant.namespaces[name] = _namespace(given, f"namespaces.{name}.")
    for name, given in named(top.get("keys"), "keys"):
        if "/" in name or name.startswith("."):
            raise WrongFile(f"keys has the name {name!r}, which is no name of a key")  # and would be one of a file
        tenant.keys[name] = [key_fields(given, f"keys.{name}")]
    tenant.rights = parsed_rights(top)
    return tenant


def _language(top: Json) -> str | None:
    given = top.get("language")
    if given is None or given in LANGUAGES:
        return given
    raise WrongFile(f"language is {given!r}: use one of {', '.join(LANGUAGES)}")


def _namespace(given: Any, at: str) -> Namespace:
    body = object_of(given, at, ("policies", "grants", "topics"))
    namespace = Namespace(_policies(body, at), _grants(body, at))
    for name, topic in named(body.get("topics"), f"{at}topics"):
        namespace.topics[name] = _topic(topic, f"{at}topics.{name}.")
    return namespace


def _topic(given: Any, at: str) -> Topic:
    body = object_of(given, at, ("partitions", "policies", "properties", "grants", "subscriptions", "schema"))
    partitions = body.get("partitions")
    if partitions is not None and (isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 0):
        raise WrongFile(f"{at}partitions is {partitions!r}: give a number, 0 for a topic that is not partitioned")
    topic = Topic(partitions, _policies(body, at), texts_of(body, at, "properties"), _grants(body, at))
    for name, subscription in named(body.get("subscriptions"), f"{at}subscriptions"):
        place = f"{at}subscriptions.{name}."
        topic.subscriptions[name] = Subscription(texts_of(object_of(subscription, place, ("properties",)), place, "properties"))
    if body.get("schema") is not None:
        topic.schemas = [parsed_schema(body["schema"], f"{at}schema")]
    return topic


def key_fields(given: Any, at: str) -> Json:
    """Those of a key that `given` says, in the form in which they are compared. Raises `WrongFile`."""
    body = dict(object_of(given, at, KEY_FIELDS))
    if body.get("expires_at") is not None:
        body["expires_at"] = _time(body["expires_at"], f"{at}.expires_at")
    for name in ("scope", "networks"):
        if body.get(name) is not None and not isinstance(body[name], list):
            raise WrongFile(f"{at}.{name} is not a list")
    if body.get("scope") is not None:
        body["scope"] = [_use(use, f"{at}.scope") for use in body["scope"]]
    return body


def _use(given: Any, at: str) -> Json:
    body = object_of(given, at, USE_FIELDS)
    actions = body.get("actions")
    if not isinstance(actions, list) or not all(isinstance(action, str) for action in actions):
        raise WrongFile(f"{at} has no list of actions, such as [produce, consume]")
    return {"actions": sorted(actions), "namespace": body.get("namespace") or "", "topics": body.get("topics") or ""}


def _policies(body: Json, at: str) -> Json | None:
    return None if "policies" not in body else dict(named(body["policies"], f"{at}policies"))


def _grants(body: Json, at: str) -> dict[str, list[str]] | None:
    if "grants" not in body:
        return None
    grants = dict(named(body["grants"], f"{at}grants"))
    for role, actions in grants.items():
        if not isinstance(actions, list) or not all(isinstance(action, str) for action in actions):
            raise WrongFile(f"{at}grants.{role} is not a list of actions, such as [produce, consume]")
    return {role: sorted(actions) for role, actions in grants.items()}


def _time(value: Any, at: str) -> str:
    """As the API writes times. YAML reads some of them as such, others are texts; without a zone they are in UTC."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise WrongFile(f"{at} is {value!r}, which is no time: give one such as 2027-01-01T00:00:00Z") from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.isoformat().replace("+00:00", "Z")


# --- comparing -------------------------------------------------------------------------------------------------------------------


def changes(desired: Tenant, actual: Tenant, *, prune: bool = False) -> list[Change]:
    """In the order in which they are made. Raises `WrongFile` for what cannot be reached by any change."""
    return [*_changes(desired, actual, prune=prune)]


def _changes(desired: Tenant, actual: Tenant, *, prune: bool) -> Iterator[Change]:
    yield from field_change("policies", (), desired.policies, actual.policies)
    yield from field_change("labels", (), desired.labels, actual.labels)
    if desired.language is not None and desired.language != actual.language:
        yield Change("change", "language", (), actual.language, desired.language)
    for name, namespace in desired.namespaces.items():
        present = actual.namespaces.get(name)
        if present is None:
            yield Change("create", "namespace", (name,))
            present = Namespace({}, {})
        yield from field_change("policies", (name,), namespace.policies, present.policies)
        for local, topic in namespace.topics.items():
            yield from _topic_changes((name, local), topic, present.topics.get(local))
        yield from field_change("grants", (name,), namespace.grants, present.grants)
        if prune:
            yield from (Change("delete", "topic", (name, each)) for each in present.topics if each not in namespace.topics)
    yield from rights_changes(desired.rights, actual.rights)  # where roles hold is there now
    for name, (key,) in desired.keys.items():
        yield from _key_changes(name, key, actual.keys.get(name, []))
    if prune and desired.keys:
        yield from (Change("delete", "key", (name,)) for name in actual.keys if name not in desired.keys)
    if prune:
        yield from _pruned_subscriptions(desired, actual)
        yield from removed_rights(desired.rights, actual.rights)


def _topic_changes(place: tuple[str, ...], topic: Topic, present: Topic | None) -> Iterator[Change]:
    if present is None:
        yield Change("create", "topic", place, after=topic.partitions or 0)
        present = Topic(topic.partitions or 0, {}, {}, {})
    if topic.partitions is not None and topic.partitions != present.partitions:
        if not present.partitions or topic.partitions < present.partitions:
            raise WrongFile(
                f"topic {'/'.join(place)} has {present.partitions} partitions, the file says {topic.partitions}: a topic gets "
                "more, never fewer, and one that is not partitioned stays so"
            )
        yield Change("change", "partitions", place, present.partitions, topic.partitions)
    yield from field_change("policies", place, topic.policies, present.policies)
    yield from field_change("properties", place, topic.properties, present.properties)
    yield from field_change("grants", place, topic.grants, present.grants)
    yield from schema_changes(place, topic.schemas, present.schemas)
    for name, subscription in topic.subscriptions.items():
        existing = present.subscriptions.get(name)
        if existing is None:
            yield Change("create", "subscription", (*place, name), after=subscription.properties or {})
        else:
            yield from field_change("subscription properties", (*place, name), subscription.properties, existing.properties)


def _key_changes(name: str, key: Json, present: list[Json]) -> Iterator[Change]:
    """A key never changes: what it may do, and until when, is signed or promised to whoever has it."""
    if not present:
        yield Change("create", "key", (name,), after=key)
    elif not any(all(version.get(each) == key[each] for each in key) for version in present):
        said = ", ".join(f"{each} {key[each]}" for each in key)
        raise WrongFile(f"key {name} exists, and not with {said}: a key does not change; rotate it, or use another name")


def _pruned_subscriptions(desired: Tenant, actual: Tenant) -> Iterator[Change]:
    for name, namespace in desired.namespaces.items():
        for local, topic in namespace.topics.items():
            present = actual.namespaces.get(name, Namespace()).topics.get(local, Topic())
            for each in present.subscriptions:
                if each not in topic.subscriptions:
                    yield Change("delete", "subscription", (name, local, each))


# --- writing ---------------------------------------------------------------------------------------------------------------------


def exported(tenant: Tenant) -> Json:
    """As a file says it, without what is empty. Of keys of one name the newest."""
    namespaces = {name: _without_nothing(_shown_namespace(namespace)) for name, namespace in sorted(tenant.namespaces.items())}
    keys = {name: _shown_key(versions[-1]) for name, versions in sorted(tenant.keys.items())}
    fields = {
        "policies": tenant.policies,
        "labels": tenant.labels,
        "language": tenant.language,
        "namespaces": namespaces,
        "keys": keys,
    }
    return {"tenant": tenant.name} | _without_nothing(fields | exported_rights(tenant.rights))


def _shown_namespace(namespace: Namespace) -> Json:
    topics = {name: _without_nothing(_shown_topic(topic)) for name, topic in sorted(namespace.topics.items())}
    return {"policies": namespace.policies, "grants": namespace.grants, "topics": topics}


def _shown_topic(topic: Topic) -> Json:
    subscriptions = {
        name: _without_nothing({"properties": subscription.properties})
        for name, subscription in sorted(topic.subscriptions.items())
    }
    return {
        "partitions": topic.partitions,
        "policies": topic.policies,
        "properties": topic.properties,
        "grants": topic.grants,
        "subscriptions": subscriptions,
        "schema": shown_schema(topic.schemas),
    }


def _shown_key(key: Json) -> Json:
    """An empty scope is one: the key may do nothing."""
    return {name: value for name, value in key.items() if value is not None and (value or name == "scope")}


def _without_nothing(body: Json) -> Json:
    return {name: value for name, value in body.items() if value}
