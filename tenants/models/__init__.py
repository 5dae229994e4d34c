"""The tables of the control plane: tenants, users, namespaces, policies, grants, keys, the audit log, and the feed to the brokers.

Rows change through `tenants.actions` only: a write there brings its audit record and its change of the feed.
"""

from tenants.models.access import CustomRole, Grant, Key, Membership, SubscriptionGrant
from tenants.models.bundles import NamespaceBundles
from tenants.models.feed import DynamicSetting, FeedHead, OutboxChange, PolicyEvent
from tenants.models.history import HistoryChunk, HistoryCursor, HistoryKnown, HistorySeries
from tenants.models.idempotency import IdempotencyKey
from tenants.models.invitation import Invitation
from tenants.models.issuers import TokenIssuer
from tenants.models.labels import MonthLabels
from tenants.models.placement import FailureDomain, IsolationPolicy
from tenants.models.provider_login import ProviderLogin
from tenants.models.record import AuditChain, AuditCheckpoint, AuditHead, AuditRecord
from tenants.models.recycled import Recycled, RecycledRow
from tenants.models.teams import Team, TeamMember, TeamRole
from tenants.models.tenant import Namespace, Tenant
from tenants.models.topic import TopicPolicies
from tenants.models.user import User, administrators
from tenants.models.views import SavedView

__all__ = [
    "AuditChain",
    "AuditCheckpoint",
    "AuditHead",
    "AuditRecord",
    "CustomRole",
    "DynamicSetting",
    "FailureDomain",
    "FeedHead",
    "Grant",
    "HistoryChunk",
    "HistoryCursor",
    "HistoryKnown",
    "HistorySeries",
    "IdempotencyKey",
    "Invitation",
    "IsolationPolicy",
    "Key",
    "Membership",
    "MonthLabels",
    "Namespace",
    "NamespaceBundles",
    "OutboxChange",
    "PolicyEvent",
    "ProviderLogin",
    "Recycled",
    "RecycledRow",
    "SavedView",
    "SubscriptionGrant",
    "Team",
    "TeamMember",
    "TeamRole",
    "Tenant",
    "TokenIssuer",
    "TopicPolicies",
    "User",
    "administrators",
]
