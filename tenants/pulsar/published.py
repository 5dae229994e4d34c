"""The paths and methods of Pulsar 4.0's admin API for tenants, namespaces, topics, schemas, clusters, brokers and their resources.

Facts, not ours: what is offered is in `urls`. A request that is in this table and is not offered is answered with 501, and with
what to do instead; docs/admin-api.md is the table of both.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_T = "{domain}/{tenant}/{namespace}/{topic}"
_N = "namespaces/{tenant}/{namespace}"

# Methods -> paths below /admin/v2; `T` is a topic, `N` a namespace.
_TABLE = {
    "DELETE": """
        brokers/configuration/{configName} N/permissions/{subscription}/{role} N/removeOffloadPolicies N/{bundle} T/policies
        T/truncate
    """,
    "GET": """
        bookies/all bookies/racks-info broker-stats/allocator-stats/{allocator} broker-stats/bookieops
        broker-stats/broker-resource-availability/{tenant}/{namespace} broker-stats/load-report broker-stats/mbeans
        broker-stats/metrics broker-stats/topics brokers brokers/backlog-quota-check brokers/configuration
        brokers/configuration/runtime brokers/configuration/values brokers/health brokers/internal-configuration
        brokers/leaderBroker brokers/ready brokers/version brokers/{clusterName}/{brokerId}/ownedNamespaces brokers/{cluster}
        clusters clusters/{cluster}/failureDomains clusters/{cluster}/namespaceIsolationPolicies
        clusters/{cluster}/namespaceIsolationPolicies/brokers clusters/{cluster}/namespaceIsolationPolicies/brokers/{broker}
        namespaces/{cluster}/antiAffinity/{group} namespaces/{tenant} N/backlogQuotaMap N/bundles N/permissions
        N/permissions/subscription N/scanOffloadedLedgers N/topics N/{bundle}/topicHashPositions resourcegroups
        schemas/{tenant}/{namespace}/{topic}/metadata schemas/{tenant}/{namespace}/{topic}/schema/{version}
        schemas/{tenant}/{namespace}/{topic}/schemas tenants {domain}/{tenant}/{namespace}
        {domain}/{tenant}/{namespace}/partitioned {domain}/{tenant}/{namespace}/{bundle} T/backlog T/backlogQuotaMap
        T/examinemessage T/internal-info T/internalStats T/lastMessageId T/ledger/{ledgerId}/entry/{entryId}
        T/messageid/{timestamp} T/partitioned-internalStats T/partitioned-stats T/permissions T/stats
        T/subscription/{subscription}/position/{messagePosition} T/subscriptions
    """,
    "GET DELETE": """
        N/property/{key} N/resourcegroup
    """,
    "GET POST": """
        clusters/{cluster}/migrate clusters/{cluster}/peers N/allowedClusters N/deduplicationSnapshotInterval
        N/encryptionRequired N/isAllowAutoUpdateSchema N/offloadPolicies N/replication N/schemaValidationEnforced
        N/subscriptionAuthMode resource-quotas T/schemaValidationEnforced
        T/subscription/{subscription}/replicatedSubscriptionStatus
    """,
    "GET POST DELETE": """
        bookies/racks-info/{bookie} clusters/{cluster}/failureDomains/{domainName}
        clusters/{cluster}/namespaceIsolationPolicies/{policyName} N/antiAffinity N/autoSubscriptionCreation N/autoTopicCreation
        N/deduplication N/delayedDelivery N/dispatchRate N/dispatcherPauseOnAckStatePersistent N/entryFilters
        N/inactiveTopicPolicies N/maxConsumersPerSubscription N/maxConsumersPerTopic N/maxProducersPerTopic
        N/maxSubscriptionsPerTopic N/maxTopicsPerNamespace N/maxUnackedMessagesPerConsumer N/maxUnackedMessagesPerSubscription
        N/messageTTL N/persistence N/persistence/bookieAffinity N/publishRate N/replicatorDispatchRate N/retention
        N/subscribeRate N/subscriptionDispatchRate N/subscriptionExpirationTime N/subscriptionTypesEnabled
        resource-quotas/{tenant}/{namespace}/{bundle} schemas/{tenant}/{namespace}/{topic}/schema T/autoSubscriptionCreation
        T/compactionThreshold T/deduplicationEnabled T/deduplicationSnapshotInterval T/delayedDelivery T/dispatchRate
        T/dispatcherPauseOnAckStatePersistent T/entryFilters T/inactiveTopicPolicies T/maxConsumers
        T/maxConsumersPerSubscription T/maxMessageSize T/maxProducers T/maxSubscriptionsPerTopic T/maxUnackedMessagesOnConsumer
        T/maxUnackedMessagesOnSubscription T/messageTTL T/offloadPolicies T/persistence T/publishRate T/replication
        T/replicatorDispatchRate T/retention T/subscribeRate T/subscriptionDispatchRate T/subscriptionTypesEnabled
        T/{subscription}/dispatchRate
    """,
    "GET PUT": """
        N/offloadThreshold N/offloadThresholdInSeconds N/schemaAutoUpdateCompatibilityStrategy N/schemaCompatibilityStrategy
        T/compaction T/offload T/subscription/{subscription}/properties
    """,
    "GET PUT DELETE": """
        N N/compactionThreshold N/offloadDeletionLagMs N/properties resourcegroups/{resourcegroup} T/properties
        T/schemaCompatibilityStrategy T/shadowTopics
    """,
    "GET PUT POST DELETE": """
        clusters/{cluster} tenants/{tenant} T/partitions
    """,
    "POST": """
        brokers/configuration/{configName}/{configValue} brokers/shutdown namespaces/grantPermissionsOnTopics
        namespaces/revokePermissionsOnTopics N/clearBacklog N/clearBacklog/{subscription} N/migration
        N/permissions/subscription/{subscription} N/resourcegroup/{resourcegroup} N/unsubscribe/{subscription}
        N/{bundle}/clearBacklog N/{bundle}/clearBacklog/{subscription} N/{bundle}/unsubscribe/{subscription}
        schemas/{tenant}/{namespace}/{topic}/compatibility schemas/{tenant}/{namespace}/{topic}/version
        T/all_subscription/expireMessages/{expireTimeInSeconds} T/createMissedPartitions
        T/subscription/{subscription}/analyzeBacklog T/subscription/{subscription}/expireMessages
        T/subscription/{subscription}/expireMessages/{expireTimeInSeconds} T/subscription/{subscription}/resetcursor
        T/subscription/{subscription}/resetcursor/{timestamp} T/subscription/{subscription}/skip/{numMessages}
        T/subscription/{subscription}/skip_all T/terminate T/terminate/partitions T/trim
    """,
    "POST DELETE": """
        N/backlogQuota N/permissions/{role} T/backlogQuota T/permissions/{role}
    """,
    "PUT": """
        N/property/{key}/{value} N/unload N/{bundle}/split N/{bundle}/unload T/backlogSize T/unload
    """,
    "PUT DELETE": """
        T T/subscription/{subscription}
    """,
}


class Published(NamedTuple):
    path: str
    methods: tuple[str, ...]


def _rows() -> tuple[Published, ...]:
    routes = []
    for methods, paths in _TABLE.items():
        for path in paths.split():
            whole = re.sub(r"^T(?=/|$)", _T, re.sub(r"^N(?=/|$)", _N, path))
            routes.append(Published(whole, tuple(methods.split())))
    return tuple(sorted(routes))


PUBLISHED = _rows()

# A part of a path -> what to do instead, for what is not offered; the first that fits.
_INSTEAD = (
    ("offload", "there is no tiered storage: set a retention by time or size, and export what must be kept longer"),
    ("scanOffloaded", "there is no tiered storage: set a retention by time or size"),
    ("shadow", "there are no shadow topics: use another subscription of the topic itself"),
    ("replicat", "there is one cluster, and nothing is replicated: leave replication out"),
    ("allowedClusters", "there is one cluster: leave it out"),
    ("migrat", "there is one cluster: leave migration out"),
    ("peers", "there is one cluster: leave it out"),
    (
        "resource-quotas",
        "bundles are placed by the load that is measured, and quotas of theirs would change nothing: limit rates by policies",
    ),
    ("resource", "there are no resource groups: limit rates by policies of namespaces and topics"),
    ("ntryFilters", "there are no plug-ins in the broker: filter in the consumer"),
    ("bookie", "bookies, where there are any, are administered by BookKeeper's own tools, and groups of them are not heeded"),
    ("dispatcherPause", "the broker always stores acknowledgements: leave it out"),
    ("{bundle}", "bundles go with their namespace: delete the topics, or the namespace"),
    ("Permissions", "grant and revoke permissions topic by topic: POST and DELETE .../permissions/ROLE"),
    ("schemaAutoUpdate", "use schemaCompatibilityStrategy (set-schema-compatibility-strategy)"),
    ("broker-stats", "see GET /metrics and `magnetar doctor`, or the stats of single topics"),
    ("brokers/", "this is for the operator of the platform: see `magnetar doctor` and docs/configuration.md"),
    ("clusters", "clusters are not administered: there is one, named by the setting `cluster_name`"),
)
NOTHING_INSTEAD = "docs/admin-api.md lists what is offered"


def why_not(path: str) -> str:
    """What to do instead of asking for a path of the table."""
    return next((why for part, why in _INSTEAD if part in path), NOTHING_INSTEAD)


def _pattern(path: str) -> re.Pattern[str]:
    path = path.replace("{domain}", "(?:persistent|non-persistent)")
    return re.compile(re.sub(r"\{[^}]*\}", "[^/]+", path) + "/?")


_PATTERNS = tuple((_pattern(row.path), row) for row in sorted(PUBLISHED, key=lambda row: row.path.count("{")))


def published(path: str) -> Published | None:
    """The row of a path below /admin/v2; one with fewer variables comes first."""
    return next((row for pattern, row in _PATTERNS if pattern.fullmatch(path)), None)


class Service(NamedTuple):
    """What a Pulsar may run beside its broker. `paths`: how its paths below /admin begin. `status`: of a Pulsar without it."""

    paths: tuple[str, ...]
    status: int
    why: str


_WORKER = ("v3/functions", "v3/sink", "v3/source", "v2/functions", "v2/sink", "v2/source", "v2/worker")
SERVICES = (
    Service(_WORKER, 409, "there is no function worker: run functions and connectors beside the platform, as clients of it"),
    Service(("v3/packages",), 503, "there is no package management: keep the code of functions elsewhere"),
    Service(("v3/transactions",), 503, "there is no transaction coordinator: transactions are refused"),
)


def service(path: str) -> Service | None:
    """Whose path below /admin this is."""
    return next((row for row in SERVICES if path.startswith(row.paths)), None)
