"""What the jump dialog knows by itself: pages and actions, each with the route that it leads to. The permission table says of each
whether somebody may have it.
"""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    label: str
    route: str
    also: str = ""  # other words for it


PLATFORM = (
    Place("Now", "now", "problems wrong"),
    Place("Tenants", "tenants"),
    Place("Usage", "usage"),
    Place("Usage runs", "usage_runs"),
    Place("Evidence of usage", "usage_evidence"),
    Place("Costs", "costs", "bill money"),
    Place("Tune producers", "tune"),
    Place("People", "people", "users"),
    Place("Price plans", "price_plans"),
    Place("Issuer of invoices", "issuer"),
    Place("Audit log of the platform", "platform_audit"),
    Place("Chain of the audit log", "audit_chain", "verify sign"),
    Place("Audit stream of the platform", "platform_audit_stream"),
    Place("Platform", "platform", "broker memory status"),
    Place("Platform alerts", "platform_alerts", "disk"),
    Place("Tasks", "tasks", "workers"),
    Place("Recycle bin of tenants", "recycled_tenants", "restore deleted"),
    Place("New tenant", "tenant_create", "create add"),
    Place("New person", "person_create", "create add user"),
    Place("New price plan", "price_plan_create", "create add"),
    Place("Your sessions", "sessions", "sign out devices"),
    Place("Your time zone", "time_zone", "clock utc local"),
    Place("Your saved views", "views", "bookmarks favourites"),
    Place("Change password", "password"),
    Place("Documentation", "docs", "help"),
)
TENANT = (
    Place("Overview of {tenant}", "tenant"),
    Place("People of {tenant}", "members", "members users"),
    Place("Keys of {tenant}", "keys", "tokens"),
    Place("Teams of {tenant}", "teams"),
    Place("Roles of {tenant}", "roles"),
    Place("Token issuers of {tenant}", "token_issuers", "sso jwt"),
    Place("Who may do what in {tenant}", "access", "permissions rights"),
    Place("Ceilings of {tenant}", "ceilings", "limits quota"),
    Place("Spend caps of {tenant}", "spend_caps", "limits money"),
    Place("Policies of {tenant}", "tenant_policies"),
    Place("Dead letters of {tenant}", "dead_letters", "dlq redrive"),
    Place("Alerts of {tenant}", "alerts", "rules notices webhook"),
    Place("This month of {tenant}", "month_ahead", "forecast"),
    Place("Budgets of {tenant}", "budgets"),
    Place("Reports of {tenant}", "reports"),
    Place("Invoices of {tenant}", "invoices", "bill"),
    Place("Billing of {tenant}", "billing", "bill account tax"),
    Place("Audit log of {tenant}", "audit", "changes history"),
    Place("Audit stream of {tenant}", "audit_stream", "siem"),
    Place("Recycle bin of {tenant}", "recycled_namespaces", "restore deleted"),
    Place("New namespace in {tenant}", "namespace_create", "create add"),
    Place("New key in {tenant}", "key_create", "create add token"),
    Place("Revoke a leaked token of {tenant}", "key_leaked", "key"),
    Place("Add a member to {tenant}", "member_set", "person user new"),
    Place("Invite somebody to {tenant}", "invitation_create", "person user new"),
    Place("New role in {tenant}", "role_create", "create add"),
    Place("New team in {tenant}", "team_create", "create add"),
    Place("New token issuer in {tenant}", "token_issuer_create", "create add"),
    Place("Labels of {tenant}", "tenant_labels"),
    Place("Delete tenant {tenant}", "tenant_delete", "remove"),
)
NAMESPACE = (
    Place("Topics of {namespace}", "namespace", "list"),
    Place("Policies of {namespace}", "policies"),
    Place("Quick start in {namespace}", "quick_start", "first message snippet"),
    Place("Recycle bin of {namespace}", "recycle_bin", "restore deleted"),
    Place("New topic in {namespace}", "topic_create", "create add"),
    Place("Delete namespace {namespace}", "namespace_delete", "remove"),
)
# Of a topic or a subscription whose name, or part of it, follows: "reset invoicing". The first word is what is typed for it.
OF_TOPIC = (
    Place("Messages of {name}", "messages", "browse"),
    Place("Tail {name}", "messages_tail"),
    Place("Publish to {name}", "message_publish", "send produce"),
    Place("Trace a message of {name}", "topic_trace"),
    Place("Policies of {name}", "topic_policies"),
    Place("Schemas of {name}", "topic_schemas"),
    Place("Storage of {name}", "topic_storage", "ledgers"),
    Place("Delayed messages of {name}", "delayed"),
    Place("Redrive from {name}", "redrives"),
    Place("Operations on {name}", "topic_operations"),
    Place("Disconnect clients of {name}", "topic_disconnect"),
    Place("Tune producers of {name}", "topic_tune"),
    Place("Unload {name}", "topic_unload"),
    Place("Compact {name}", "topic_compact"),
    Place("Trim {name}", "topic_trim"),
    Place("Truncate {name}", "topic_truncate"),
    Place("Terminate {name}", "topic_terminate"),
    Place("Add partitions to {name}", "topic_partitions", "partitions"),
    Place("Delete topic {name}", "topic_delete", "remove"),
)
OF_SUBSCRIPTION = (
    Place("Reset {name}", "subscription_reset", "seek rewind replay"),
    Place("Skip messages of {name}", "subscription_skip"),
    Place("Clear {name}", "subscription_clear"),
    Place("Expire messages of {name}", "subscription_expire"),
    Place("Delete subscription {name}", "subscription_delete", "unsubscribe remove"),
)
FILLERS = frozenset({"a", "from", "in", "message", "messages", "of", "on", "subscription", "the", "to", "topic"})
WORD_LENGTH_MIN = 3  # letters of an action, before names are looked for with what follows


def matches(words: list[str], *texts: str) -> bool:
    """Whether each of `words` (lower case) is in one of the texts."""
    whole = " ".join(texts).lower()
    return all(word in whole for word in words)


def acts(places: tuple[Place, ...], word: str) -> list[Place]:
    """Those that are called like `word` (lower case): a word of the label, or of the others, begins with it."""
    if len(word) < WORD_LENGTH_MIN:
        return []
    return [
        place
        for place in places
        if any(
            each.startswith(word)
            for each in f"{place.label} {place.also}".lower().replace("{name}", "").split()
            if each not in FILLERS
        )
    ]
