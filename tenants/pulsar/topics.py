"""Topics, partitioned and not, as Pulsar's admin API has them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from messaging.adminrpc.methods import (
    TOPICS_CHANGE_PROPERTIES,
    TOPICS_COMPACTION_STATUS,
    TOPICS_CREATE_MISSING_PARTITIONS,
    TOPICS_INTERNAL_INFO,
    TOPICS_INTERNAL_STATS,
    TOPICS_LAST_MESSAGE_ID,
    TOPICS_PARTITIONED_INTERNAL_STATS,
    TOPICS_PARTITIONED_STATS,
    TOPICS_PARTITIONS,
    TOPICS_PROPERTIES,
    TOPICS_STATS,
    TOPICS_TERMINATE,
    TOPICS_TERMINATE_PARTITIONS,
    TOPICS_UPDATE_PARTITIONS,
)
from messaging.adminrpc.topics import MessageIdAnswer, PartitionsGet, PartitionsUpdate, StatsAsked, TopicPropertiesChange, TopicRef
from messaging.errors import Conflict, InvalidName, InvalidValue, NotAcceptable, NotAllowed, TopicNotFound
from messaging.protocol.bundles import bundle_of
from messaging.protocol.names import NON_PERSISTENT, TopicName
from tenants import actions, broker
from tenants.actions.bundles import boundaries_of
from tenants.http.views import actor, body, flag, route, value_or_nothing
from tenants.names import namespace_of, topic_of
from tenants.pulsar.bodies import PARTITIONS_GIVEN, PROPERTIES_GIVEN, PartitionedTopicMetadata
from tenants.pulsar.namespace_bundles import topics_in
from tenants.pulsar.rows import as_missing, existing_namespace, shown, topic_names

_WITH_PROPERTIES = "application/vnd.partitioned-topic-metadata+json"


def existing(parts: dict[str, str]) -> TopicName:
    """The name of a topic whose namespace exists. Whether the topic itself exists is for the broker to decide."""
    topic = topic_of(parts)
    existing_namespace(topic.tenant, topic.namespace_local)
    return topic


def partitions_of(topic: TopicName, *, creates: bool = False) -> list[str]:
    """The names that hold the messages of a topic: itself, or its partitions. `creates`: it is used, which may create it. Raises
    `TopicNotFound`."""
    count = broker.rpc().call(TOPICS_PARTITIONS, PartitionsGet(topic=str(topic), check_auto_creation=creates)).partitions
    return [str(topic.of_partition(index)) for index in range(count)] or [str(topic)]


# --- lists -------------------------------------------------------------------------------------------------------------------


def _list(request: HttpRequest, domain: str, tenant: str, namespace: str) -> list[str]:
    names = [topic for topic in shown(request, topic_names(tenant, namespace).topics) if topic.startswith(f"{domain}://")]
    bundle = request.GET.get("bundle", "")
    if not bundle:
        return names
    boundaries = boundaries_of(str(namespace_of(tenant, namespace)))
    return [topic for topic in names if str(bundle_of(boundaries, topic)) == bundle]


def _list_in_bundle(request: HttpRequest, domain: str, tenant: str, namespace: str, topic: str) -> list[str]:
    if domain != NON_PERSISTENT:
        raise NotAllowed(f"GET is not allowed here: GET /admin/v2/{domain}/{tenant}/{namespace}?bundle={topic} lists a bundle")
    return topics_in(request, tenant, namespace, topic)


def _list_partitioned(request: HttpRequest, domain: str, tenant: str, namespace: str) -> list[str]:
    names = topic_names(tenant, namespace).partitioned
    return sorted(topic for topic in shown(request, names) if topic.startswith(f"{domain}://"))


# --- plain topics ------------------------------------------------------------------------------------------------------------


def _create(request: HttpRequest, **parts: str) -> None:
    topic = existing(parts)
    properties = _given_properties(request)
    if topic.partition >= 0:
        _check_partition(topic)
    actions.create_topic(actor(request), topic, None, properties)


def _check_partition(topic: TopicName) -> None:
    """A name that ends like a partition must be an existing partition."""
    try:
        count = broker.rpc().call(TOPICS_PARTITIONS, PartitionsGet(topic=str(topic.base))).partitions
    except TopicNotFound:
        count = 0
    if topic.partition >= count:
        raise InvalidName(f"topic {topic} has the name of a partition of a topic that does not exist: choose another name")


def _delete(request: HttpRequest, **parts: str) -> None:
    topic = existing(parts)
    with as_missing(topic):
        actions.delete_topic(actor(request), topic, force=flag(request, "force"))


# --- partitioned topics ------------------------------------------------------------------------------------------------------


def _get_partitions(request: HttpRequest, **parts: str) -> dict[str, Any]:
    topic = existing(parts)
    asked = PartitionsGet(topic=str(topic), check_auto_creation=flag(request, "checkAllowAutoCreation"))
    partitioned = broker.rpc().call(TOPICS_PARTITIONS, asked)
    answer: dict[str, Any] = {"partitions": partitioned.partitions, "deleted": False}
    return answer | {"properties": partitioned.properties} if partitioned.properties else answer


def _create_partitioned(request: HttpRequest, **parts: str) -> None:
    topic = existing(parts)
    properties: dict[str, str] | None = None
    if request.content_type == _WITH_PROPERTIES:
        given = body(request, PartitionedTopicMetadata)
        if given is None:
            raise NotAcceptable("the request body has no number of partitions: send an integer")
        partitions, properties = given.partitions, given.properties
    else:
        partitions = _count(request)
    actions.create_topic(actor(request), topic, partitions, properties)


def _update_partitions(request: HttpRequest, **parts: str) -> None:
    topic = existing(parts)
    partitions = _count(request)
    trail = actor(request).trail
    try:
        trail.before = {"partitions": broker.rpc().call(TOPICS_PARTITIONS, PartitionsGet(topic=str(topic))).partitions}
        trail.after = {"partitions": partitions}
        broker.rpc().call(TOPICS_UPDATE_PARTITIONS, PartitionsUpdate(topic=str(topic), partitions=partitions))
    except TopicNotFound:
        raise Conflict(f"Topic {topic} is not the partitioned topic.") from None


def _delete_partitioned(request: HttpRequest, **parts: str) -> None:
    actions.delete_topic(actor(request), existing(parts), force=flag(request, "force"), partitioned=True)


def _count(request: HttpRequest) -> int:
    count = body(request, PARTITIONS_GIVEN, None)
    if count is None:
        raise InvalidValue("the request body has no number of partitions: send an integer")
    return count


def _create_missing(request: HttpRequest, **parts: str) -> None:
    broker.rpc().call(TOPICS_CREATE_MISSING_PARTITIONS, TopicRef(topic=str(existing(parts))))


# --- properties --------------------------------------------------------------------------------------------------------------


def _get_properties(request: HttpRequest, **parts: str) -> dict[str, str]:
    return broker.rpc().call(TOPICS_PROPERTIES, TopicRef(topic=str(existing(parts)))).properties


def _update_properties(request: HttpRequest, **parts: str) -> None:
    """Properties that the body does not name stay."""
    _change_properties(request, TopicPropertiesChange(topic=str(existing(parts)), properties=_given_properties(request)))


def _given_properties(request: HttpRequest) -> dict[str, str]:
    return body(request, PROPERTIES_GIVEN, {})


def _remove_property(request: HttpRequest, **parts: str) -> None:
    topic, key = existing(parts), request.GET.get("key", "")
    _change_properties(request, TopicPropertiesChange(topic=str(topic), removed=key))


def _change_properties(request: HttpRequest, change: TopicPropertiesChange) -> None:
    trail = actor(request).trail
    trail.before = {"properties": broker.rpc().call(TOPICS_PROPERTIES, TopicRef(topic=change.topic)).properties}
    trail.after = {"properties": broker.rpc().call(TOPICS_CHANGE_PROPERTIES, change).properties}


# --- stats and state ---------------------------------------------------------------------------------------------------------


def _stats(request: HttpRequest, **parts: str) -> dict[str, Any]:
    return _without(request, broker.rpc().call(TOPICS_STATS, StatsAsked(topic=str(existing(parts)))).stats)


def _with_values(stats: dict[str, Any]) -> dict[str, Any]:
    """Without the fields of a topic and of its parts that have no value: an absent one says so in every language."""
    values = {name: value for name, value in stats.items() if value is not None and value != ""}
    for parts in ("subscriptions", "partitions"):
        if parts in values:
            values[parts] = {name: _with_values(part) for name, part in values[parts].items()}
    for members in ("publishers", "consumers"):
        if members in values:
            values[members] = [_with_values(member) for member in values[members]]
    return values


def _without(request: HttpRequest, stats: dict[str, Any]) -> dict[str, Any]:
    """Without the members that the caller does not want to see, and without what has no value."""
    if request.GET.get("subscriptionBacklogSize", "true").lower() == "false":
        stats = {
            **stats,
            "subscriptions": {name: {**subscription, "backlogSize": -1} for name, subscription in stats["subscriptions"].items()},
        }
    if flag(request, "excludePublishers"):
        stats = {**stats, "publishers": []}
    if flag(request, "excludeConsumers"):
        stats = {
            **stats,
            "subscriptions": {name: {**subscription, "consumers": []} for name, subscription in stats["subscriptions"].items()},
        }
    return _with_values(stats)


def _internal_stats(request: HttpRequest, **parts: str) -> dict[str, Any]:
    return broker.rpc().call(TOPICS_INTERNAL_STATS, TopicRef(topic=str(existing(parts)))).stats


def _internal_info(request: HttpRequest, **parts: str) -> dict[str, Any]:
    return broker.rpc().call(TOPICS_INTERNAL_INFO, TopicRef(topic=str(existing(parts)))).stats


def _partitioned_internal_stats(request: HttpRequest, **parts: str) -> dict[str, Any]:
    return broker.rpc().call(TOPICS_PARTITIONED_INTERNAL_STATS, TopicRef(topic=str(existing(parts)))).stats


def _partitioned_stats(request: HttpRequest, **parts: str) -> dict[str, Any]:
    stats = broker.rpc().call(TOPICS_PARTITIONED_STATS, StatsAsked(topic=str(existing(parts)))).stats
    if request.GET.get("perPartition", "true").lower() == "false":
        stats = {**stats, "partitions": {}}
    return _without(request, stats)


def _unload(request: HttpRequest, **parts: str) -> None:
    actions.unload_topic(actor(request), existing(parts))


def _terminate(request: HttpRequest, **parts: str) -> dict[str, Any]:
    last = broker.rpc().call(TOPICS_TERMINATE, TopicRef(topic=str(existing(parts))))
    actor(request).trail.after = {"last_message_id": f"{last.ledger_id}:{last.entry_id}"}
    return message_id(last)


def _compact(request: HttpRequest, **parts: str) -> None:
    actions.compact_topic(actor(request), existing(parts))


def _compaction_status(request: HttpRequest, **parts: str) -> dict[str, str]:
    compaction = broker.rpc().call(TOPICS_COMPACTION_STATUS, TopicRef(topic=str(existing(parts))))
    return {"status": compaction.status, "lastError": compaction.last_error}


def message_id(position: MessageIdAnswer) -> dict[str, int]:
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": position.partition,
        "batchIndex": position.batch_index,
        "batchSize": 0,
    }


def _terminate_partitions(request: HttpRequest, **parts: str) -> dict[str, Any]:
    last = broker.rpc().call(TOPICS_TERMINATE_PARTITIONS, TopicRef(topic=str(existing(parts)))).last
    actor(request).trail.after = {"last_message_ids": [f"{position.ledger_id}:{position.entry_id}" for position in last]}
    return {str(index): message_id(position) for index, position in enumerate(last)}


def _truncate(request: HttpRequest, **parts: str) -> None:
    actions.truncate_topic(actor(request), existing(parts))


def _trim(request: HttpRequest, **parts: str) -> HttpResponse:
    actions.trim_topic(actor(request), existing(parts))
    return value_or_nothing(None)  # 200, not 204


def _last_message_id(request: HttpRequest, **parts: str) -> dict[str, Any]:
    found = broker.rpc().call(TOPICS_LAST_MESSAGE_ID, TopicRef(topic=str(existing(parts))))
    return message_id(found) | {"originalBatchSize": 0, "outstandingAcksInSameBatch": 0}


list_view = route(GET=_list)
partitioned_list_view = route(GET=_list_partitioned)
topic_view = route(GET=_list_in_bundle, PUT=_create, DELETE=_delete)
partitions_view = route(GET=_get_partitions, PUT=_create_partitioned, POST=_update_partitions, DELETE=_delete_partitioned)
missing_view = route(POST=_create_missing)
properties_view = route(GET=_get_properties, PUT=_update_properties, DELETE=_remove_property)
stats_view = route(GET=_stats)
internal_stats_view = route(GET=_internal_stats)
internal_info_view = route(GET=_internal_info)
partitioned_internal_stats_view = route(GET=_partitioned_internal_stats)
partitioned_stats_view = route(GET=_partitioned_stats)
unload_view = route(PUT=_unload)
terminate_view = route(POST=_terminate)
terminate_partitions_view = route(POST=_terminate_partitions)
trim_view = route(POST=_trim)
truncate_view = route(DELETE=_truncate)
compaction_view = route(GET=_compaction_status, PUT=_compact)
last_message_id_view = route(GET=_last_message_id)
