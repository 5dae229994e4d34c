"""Routes of /admin/v2. Any other path is answered with 404 and a reason (`tenants.http.errors.not_found`)."""

from __future__ import annotations

from django.urls import path, register_converter

from messaging.policies.pulsar import PATHS
from messaging.policies.pulsar_topics import TOPIC_PATHS
from messaging.policies.pulsar_unset import NAMESPACE_UNSET, TOPIC_UNSET
from tenants.http.segments import SegmentConverter
from tenants.pulsar import (
    bookies,
    broker_stats,
    brokers,
    messages,
    namespace_bundles,
    namespace_permissions,
    namespace_policies,
    namespace_properties,
    namespaces,
    placement,
    schemas,
    subscriptions,
    tenants,
    topic_permissions,
    topic_policies,
    topics,
    unset,
)

register_converter(SegmentConverter, "segment")


class DomainConverter(SegmentConverter):
    regex = "persistent|non-persistent"


register_converter(DomainConverter, "domain")


class ClusterConverter(SegmentConverter):
    """Names of clusters, without those that other paths of Pulsar have in their place."""

    regex = rf"(?!(?:backlog-quota-check|configuration|internal-configuration)/?$){SegmentConverter.regex}"


register_converter(ClusterConverter, "cluster")

app_name = "admin_v2"
_N = "namespaces/<segment:tenant>/<segment:namespace>"
_BUNDLE = f"{_N}/<segment:bundle>"
_T = "<domain:domain>/<segment:tenant>/<segment:namespace>"
_TOPIC = f"{_T}/<segment:topic>"
_ISOLATION = "clusters/<segment:cluster>/namespaceIsolationPolicies"
_SCHEMAS = "schemas/<segment:tenant>/<segment:namespace>/<segment:topic>"
_SUB = f"{_TOPIC}/subscription/<segment:subscription>"

urlpatterns = [
    path("tenants", tenants.tenants_view, name="tenants"),
    path("tenants/<segment:tenant>", tenants.tenant_view, name="tenant"),
    path("clusters", brokers.clusters_view, name="clusters"),
    path("clusters/<segment:cluster>", brokers.cluster_view, name="cluster"),
    path("clusters/<segment:cluster>/peers", unset.peers_view, name="cluster-peers"),
    path("clusters/<segment:cluster>/failureDomains", placement.domains_view, name="cluster-domains"),
    path("clusters/<segment:cluster>/failureDomains/<segment:group>", placement.domain_view, name="cluster-domain"),
    path("clusters/<segment:cluster>/migrate", unset.migration_view, name="cluster-migration"),
    path(_ISOLATION, placement.isolations_view, name="cluster-isolation"),
    path(f"{_ISOLATION}/brokers", placement.isolation_brokers_view, name="cluster-isolation-brokers"),
    path(f"{_ISOLATION}/brokers/<segment:broker_id>", placement.isolation_broker_view, name="cluster-isolation-broker"),
    path(f"{_ISOLATION}/<segment:policy>", placement.isolation_view, name="cluster-isolation-policy"),
    path("resourcegroups", unset.groups_view, name="resource-groups"),
    path("resourcegroups/<segment:group>", unset.group_view, name="resource-group"),
    path("bookies/racks-info", bookies.racks_view, name="bookie-racks"),
    path("bookies/racks-info/<segment:bookie>", bookies.rack_view, name="bookie-rack"),
    path("bookies/all", bookies.bookies_view, name="bookies"),
    path("brokers/backlog-quota-check", unset.quota_check_view, name="backlog-quota-check"),
    path("broker-stats/topics", broker_stats.topics_view, name="broker-stats-topics"),
    path("broker-stats/load-report", broker_stats.load_report_view, name="load-report"),
    path("broker-stats/metrics", broker_stats.metrics_view, name="broker-stats-metrics"),
    path("brokers", brokers.brokers_view, name="brokers"),
    path("brokers/health", brokers.health_view, name="brokers-health"),
    path("brokers/ready", brokers.health_view, name="brokers-ready"),
    path("brokers/version", brokers.version_view, name="brokers-version"),
    path("brokers/configuration", brokers.dynamic_names_view, name="brokers-dynamic-names"),
    path("brokers/configuration/values", brokers.dynamic_values_view, name="brokers-dynamic-values"),
    path("brokers/configuration/<segment:name>/<path:value>", brokers.dynamic_value_view, name="brokers-dynamic-value"),
    path("brokers/configuration/runtime", brokers.runtime_configuration_view, name="brokers-runtime-configuration"),
    path("brokers/configuration/<segment:name>", brokers.dynamic_name_view, name="brokers-dynamic-name"),
    path("brokers/internal-configuration", brokers.internal_configuration_view, name="brokers-internal-configuration"),
    path("brokers/leaderBroker", brokers.leader_view, name="leader-broker"),
    path("brokers/<cluster:cluster>/<segment:broker_id>/ownedNamespaces", placement.owned_view, name="owned-bundles"),
    path("brokers/<cluster:cluster>", brokers.brokers_view, name="brokers-of-cluster"),
    path("namespaces/grantPermissionsOnTopics", topic_permissions.grants_view, name="topics-grants"),
    path("namespaces/revokePermissionsOnTopics", topic_permissions.revocations_view, name="topics-revocations"),
    path("namespaces/<segment:cluster>/antiAffinity/<segment:group>", placement.together_view, name="anti-affinity-namespaces"),
    path("namespaces/<segment:tenant>", namespaces.namespaces_view, name="namespaces"),
    path(_N, namespaces.namespace_view, name="namespace"),
    path(f"{_N}/topics", namespaces.topics_view, name="namespace-topics"),
    path(f"{_N}/bundles", namespace_bundles.bundles_view, name="namespace-bundles"),
    path(f"{_N}/unload", namespaces.unload_view, name="namespace-unload"),
    path(f"{_N}/permissions", namespace_permissions.permissions_view, name="namespace-permissions"),
    path(f"{_N}/permissions/subscription", namespace_permissions.subscription_permissions_view, name="subscription-permissions"),
    path(
        f"{_N}/permissions/subscription/<segment:subscription>",
        namespace_permissions.subscription_permission_view,
        name="subscription-permission",
    ),
    path(
        f"{_N}/permissions/subscription/<segment:subscription>/<segment:role>",
        namespace_permissions.subscription_permission_role_view,
        name="subscription-permission-role",
    ),
    path(  # as Pulsar's Java client spells it
        f"{_N}/permissions/<segment:subscription>/<segment:role>",
        namespace_permissions.subscription_permission_role_view,
        name="subscription-permission-role",
    ),
    path(f"{_N}/permissions/<segment:role>", namespace_permissions.permission_view, name="namespace-permission"),
    path(f"{_N}/antiAffinity", placement.group_view, name="anti-affinity"),
    path(f"{_N}/replication", namespace_policies.replication_view, name="replication"),
    path(f"{_N}/backlogQuotaMap", namespace_policies.quotas_view, name="backlog-quotas"),
    path(f"{_N}/backlogQuota", namespace_policies.quota_view, name="backlog-quota"),
    path(f"{_N}/property/<segment:key>", namespace_properties.property_view, name="namespace-property"),
    path(f"{_N}/property/<segment:key>/<segment:value>", namespace_properties.property_value_view, name="namespace-property-value"),
    path(f"{_N}/clearBacklog", namespaces.clear_backlog_view, name="namespace-clear-backlog"),
    path(f"{_N}/clearBacklog/<segment:subscription>", namespaces.clear_backlog_view, name="namespace-clear-backlog-of"),
    path(f"{_N}/unsubscribe/<segment:subscription>", namespaces.unsubscribe_view, name="namespace-unsubscribe"),
    path(f"{_BUNDLE}/unload", namespace_bundles.unload_view, name="bundle-unload"),
    path(f"{_BUNDLE}/split", namespace_bundles.split_view, name="bundle-split"),
    path(f"{_BUNDLE}/topicHashPositions", namespace_bundles.positions_view, name="bundle-positions"),
    path(f"{_BUNDLE}/clearBacklog", namespace_bundles.clear_backlog_view, name="bundle-clear-backlog"),
    path(f"{_BUNDLE}/clearBacklog/<segment:subscription>", namespace_bundles.clear_backlog_view, name="bundle-clear-backlog-of"),
    path(f"{_BUNDLE}/unsubscribe/<segment:subscription>", namespace_bundles.unsubscribe_view, name="bundle-unsubscribe"),
    *(path(f"{_N}/{one.path}", namespace_policies.policy_view(one), name=f"policy-{one.path}") for one in PATHS.values()),
    *(
        path(f"{_N}/{below}", view, name=f"namespace-unset-{below}")
        for one in NAMESPACE_UNSET
        for below, view in unset.namespace_views(one).items()
    ),
    path(f"{_SCHEMAS}/schema", schemas.schema_view, name="schema"),
    path(f"{_SCHEMAS}/schema/<segment:version>", schemas.version_view, name="schema-version"),
    path(f"{_SCHEMAS}/schemas", schemas.versions_view, name="schema-versions"),
    path(f"{_SCHEMAS}/metadata", schemas.metadata_view, name="schema-metadata"),
    path(f"{_SCHEMAS}/compatibility", schemas.compatibility_view, name="schema-compatibility"),
    path(f"{_SCHEMAS}/version", schemas.find_view, name="schema-find"),
    path(_T, topics.list_view, name="topics"),
    path(f"{_T}/partitioned", topics.partitioned_list_view, name="partitioned-topics"),
    path(_TOPIC, topics.topic_view, name="topic"),
    path(f"{_TOPIC}/partitions", topics.partitions_view, name="partitions"),
    path(f"{_TOPIC}/createMissedPartitions", topics.missing_view, name="missing-partitions"),
    path(f"{_TOPIC}/properties", topics.properties_view, name="topic-properties"),
    path(f"{_TOPIC}/permissions", topic_permissions.permissions_view, name="topic-permissions"),
    path(f"{_TOPIC}/permissions/<segment:role>", topic_permissions.permission_view, name="topic-permission"),
    path(f"{_TOPIC}/stats", topics.stats_view, name="topic-stats"),
    path(f"{_TOPIC}/internalStats", topics.internal_stats_view, name="topic-internal-stats"),
    path(f"{_TOPIC}/internal-info", topics.internal_info_view, name="topic-internal-info"),
    path(f"{_TOPIC}/partitioned-internalStats", topics.partitioned_internal_stats_view, name="partitioned-internal-stats"),
    path(f"{_TOPIC}/partitioned-stats", topics.partitioned_stats_view, name="partitioned-stats"),
    path(f"{_TOPIC}/unload", topics.unload_view, name="topic-unload"),
    path(f"{_TOPIC}/terminate", topics.terminate_view, name="topic-terminate"),
    path(f"{_TOPIC}/terminate/partitions", topics.terminate_partitions_view, name="topic-terminate-partitions"),
    path(f"{_TOPIC}/trim", topics.trim_view, name="topic-trim"),
    path(f"{_TOPIC}/truncate", topics.truncate_view, name="topic-truncate"),
    path(f"{_TOPIC}/compaction", topics.compaction_view, name="topic-compaction"),
    path(f"{_TOPIC}/lastMessageId", topics.last_message_id_view, name="last-message-id"),
    path(f"{_TOPIC}/ledger/<segment:ledger>/entry/<segment:entry>", messages.message_view, name="message"),
    path(f"{_TOPIC}/examinemessage", messages.examine_view, name="examine-message"),
    path(f"{_TOPIC}/messageid/<segment:timestamp>", messages.find_view, name="find-message"),
    path(f"{_TOPIC}/policies", topic_policies.all_view, name="topic-policies"),
    path(f"{_TOPIC}/backlogQuotaMap", topic_policies.quotas_view, name="topic-backlog-quotas"),
    path(f"{_TOPIC}/backlogQuota", topic_policies.quota_view, name="topic-backlog-quota"),
    *(
        path(f"{_TOPIC}/{one.path}", topic_policies.topic_policy_view(one), name=f"topic-policy-{one.path}")
        for one in TOPIC_PATHS.values()
    ),
    path(
        f"{_TOPIC}/<segment:subscription>/dispatchRate",
        topic_policies.subscription_dispatch_rate_view,
        name="subscription-dispatch-rate",
    ),
    *(
        path(f"{_TOPIC}/{below}", view, name=f"topic-unset-{below}")
        for one in TOPIC_UNSET
        for below, view in unset.topic_views(one).items()
    ),
    path(f"{_SUB}/replicatedSubscriptionStatus", unset.replicated_view, name="replicated-subscription"),
    path(f"{_TOPIC}/backlogSize", subscriptions.backlog_size_view, name="topic-backlog-size"),
    path(f"{_TOPIC}/subscriptions", subscriptions.list_view, name="subscriptions"),
    path(_SUB, subscriptions.subscription_view, name="subscription"),
    path(f"{_SUB}/skip_all", subscriptions.skip_all_view, name="skip-all"),
    path(f"{_SUB}/skip/<segment:entries>", subscriptions.skip_view, name="skip"),
    path(f"{_SUB}/expireMessages", subscriptions.expire_to_view, name="expire-to"),
    path(f"{_SUB}/expireMessages/<segment:seconds>", subscriptions.expire_view, name="expire"),
    path(f"{_TOPIC}/all_subscription/expireMessages/<segment:seconds>", subscriptions.expire_all_view, name="expire-all"),
    path(f"{_SUB}/resetcursor", subscriptions.reset_view, name="reset-cursor"),
    path(f"{_SUB}/resetcursor/<segment:timestamp>", subscriptions.reset_to_time_view, name="reset-cursor-to-time"),
    path(f"{_SUB}/properties", subscriptions.properties_view, name="subscription-properties"),
    path(f"{_SUB}/analyzeBacklog", subscriptions.analyze_backlog_view, name="analyze-backlog"),
    path(f"{_SUB}/position/<segment:position>", subscriptions.peek_view, name="peek"),
]
