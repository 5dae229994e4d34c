"""What the jump dialog knows by itself: pages and actions, each with the route that it leads to. The permission table says of each
whether somebody may have it.
"""

from __future__ import annotations

from typing import NamedTuple

from django.utils.translation import gettext_noop

from admin_ui.permissions import CONSOLE
from admin_ui.translation.texts import gettext


class Place(NamedTuple):
    """`label` is in English: both languages find it, and `said` is shown."""

    label: str
    route: str
    also: str = ""  # other words for it

    def said(self, **names: str) -> str:
        return gettext(self.label).format(**names)

    @property
    def acts(self) -> bool:
        """Whether something is made, changed or removed there."""
        return self.label.startswith(("New ", "Add ", "Delete ", "Invite ", "Revoke "))


PLATFORM = (
    Place(gettext_noop("Now"), "now", "problems wrong"),
    Place(gettext_noop("Tenants"), "tenants"),
    Place(gettext_noop("Usage"), "usage"),
    Place(gettext_noop("Usage runs"), "usage_runs"),
    Place(gettext_noop("Evidence of usage"), "usage_evidence"),
    Place(gettext_noop("Costs"), "costs", "bill money"),
    Place(gettext_noop("Tune producers"), "tune"),
    Place(gettext_noop("People"), "people", "users"),
    Place(gettext_noop("Price plans"), "price_plans"),
    Place(gettext_noop("Issuer of invoices"), "issuer"),
    Place(gettext_noop("Audit log of the platform"), "platform_audit"),
    Place(gettext_noop("Chain of the audit log"), "audit_chain", "verify sign"),
    Place(gettext_noop("Audit stream of the platform"), "platform_audit_stream"),
    Place(gettext_noop("Platform"), "platform", "broker memory status"),
    Place(gettext_noop("Brokers of the platform"), "brokers", "fleet bundles drain isolation"),
    Place(gettext_noop("Clients of the platform"), "platform_clients", "connections libraries versions addresses"),
    Place(gettext_noop("Platform alerts"), "platform_alerts", "disk"),
    Place(gettext_noop("Tasks"), "tasks", "workers"),
    Place(gettext_noop("Recycle bin of tenants"), "recycled_tenants", "restore deleted"),
    Place(gettext_noop("New tenant"), "tenant_create", "create add"),
    Place(gettext_noop("New person"), "person_create", "create add user"),
    Place(gettext_noop("New isolation policy"), "isolation_policy_create", "create add brokers placement"),
    Place(gettext_noop("New failure domain"), "failure_domain_create", "create add brokers racks"),
    Place(gettext_noop("New price plan"), "price_plan_create", "create add"),
    Place(gettext_noop("Your sessions"), "sessions", "sign out devices"),
    Place(gettext_noop("Your time zone"), "time_zone", "clock utc local"),
    Place(gettext_noop("Your saved views"), "views", "bookmarks favourites"),
    Place(gettext_noop("Your second factor"), "mfa_index", "mfa totp passkey security key authenticator app recovery codes"),
    Place(gettext_noop("Your e-mail address"), "account_email", "mail email"),
    Place(gettext_noop("Change password"), "password"),
    Place(gettext_noop("Documentation"), "docs", "help"),
)
TENANT = (
    Place(gettext_noop("Overview of {tenant}"), "tenant"),
    Place(gettext_noop("People of {tenant}"), "members", "members users"),
    Place(gettext_noop("Keys of {tenant}"), "keys", "tokens"),
    Place(gettext_noop("Teams of {tenant}"), "teams"),
    Place(gettext_noop("Roles of {tenant}"), "roles"),
    Place(gettext_noop("Token issuers of {tenant}"), "token_issuers", "sso jwt"),
    Place(gettext_noop("Clients of {tenant}"), "tenant_clients", "connections libraries versions addresses"),
    Place(gettext_noop("Who reads messages of {tenant}"), "readers", "isolation read access audit"),
    Place(gettext_noop("History of {tenant}"), "tenant_history", "charts past"),
    Place(gettext_noop("Who may do what in {tenant}"), "access", "permissions rights"),
    Place(gettext_noop("Ceilings of {tenant}"), "ceilings", "limits quota"),
    Place(gettext_noop("Spend caps of {tenant}"), "spend_caps", "limits money"),
    Place(gettext_noop("Policies of {tenant}"), "tenant_policies"),
    Place(gettext_noop("Dead letters of {tenant}"), "dead_letters", "dlq redrive"),
    Place(gettext_noop("Redrives of {tenant}"), "dead_letter_jobs", "dlq dead letters jobs"),
    Place(gettext_noop("Alerts of {tenant}"), "alerts", "rules notices webhook"),
    Place(gettext_noop("This month of {tenant}"), "month_ahead", "forecast costs lower bill savings halve retention"),
    Place(gettext_noop("Budgets of {tenant}"), "budgets"),
    Place(gettext_noop("Reports of {tenant}"), "reports"),
    Place(gettext_noop("Invoices of {tenant}"), "invoices", "bill"),
    Place(gettext_noop("Billing of {tenant}"), "billing", "bill account tax"),
    Place(gettext_noop("Audit log of {tenant}"), "audit", "changes history"),
    Place(gettext_noop("Audit stream of {tenant}"), "audit_stream", "siem"),
    Place(gettext_noop("Recycle bin of {tenant}"), "recycled_namespaces", "restore deleted"),
    Place(gettext_noop("New namespace in {tenant}"), "namespace_create", "create add"),
    Place(gettext_noop("New key in {tenant}"), "key_create", "create add token"),
    Place(gettext_noop("Revoke a leaked token of {tenant}"), "key_leaked", "key"),
    Place(gettext_noop("Add a member to {tenant}"), "member_set", "person user new contractor access week"),
    Place(gettext_noop("Invite somebody to {tenant}"), "invitation_create", "person user new contractor access week"),
    Place(gettext_noop("New role in {tenant}"), "role_create", "create add"),
    Place(gettext_noop("New team in {tenant}"), "team_create", "create add"),
    Place(gettext_noop("New token issuer in {tenant}"), "token_issuer_create", "create add"),
    Place(gettext_noop("Labels of {tenant}"), "tenant_labels"),
    Place(gettext_noop("Language of {tenant}"), "tenant_language"),
    Place(gettext_noop("Delete tenant {tenant}"), "tenant_delete", "remove"),
)
NAMESPACE = (
    Place(gettext_noop("Topics of {namespace}"), "namespace", "list"),
    Place(gettext_noop("Policies of {namespace}"), "policies"),
    Place(gettext_noop("Permissions of {namespace}"), "grants", "grants rights roles access"),
    Place(gettext_noop("Add a permission in {namespace}"), "grant_create", "grant access contractor week new"),
    Place(gettext_noop("History of {namespace}"), "namespace_history", "charts past"),
    Place(gettext_noop("Bundles of {namespace}"), "bundles", "brokers owner split unload move load"),
    Place(gettext_noop("Quick start in {namespace}"), "quick_start", "first message snippet"),
    Place(gettext_noop("Recycle bin of {namespace}"), "recycle_bin", "restore deleted"),
    Place(gettext_noop("New topic in {namespace}"), "topic_create", "create add"),
    Place(gettext_noop("Delete namespace {namespace}"), "namespace_delete", "remove"),
)
# Of a topic or a subscription whose name, or part of it, follows: "reset invoicing". The first word is what is typed for it.
OF_TOPIC = (
    Place(gettext_noop("Messages of {name}"), "messages", "browse"),
    Place(gettext_noop("Why nothing is published to {name}"), "topic_why", "held stopped stuck blocked"),
    Place(gettext_noop("History of {name}"), "topic_history", "charts past timeline"),
    Place(gettext_noop("Tail {name}"), "messages_tail"),
    Place(gettext_noop("Publish to {name}"), "message_publish", "send produce"),
    Place(gettext_noop("Trace a message of {name}"), "topic_trace"),
    Place(gettext_noop("Policies of {name}"), "topic_policies"),
    Place(gettext_noop("Schemas of {name}"), "topic_schemas"),
    Place(gettext_noop("Storage of {name}"), "topic_storage", "ledgers"),
    Place(gettext_noop("Delayed messages of {name}"), "delayed"),
    Place(gettext_noop("Redrive from {name}"), "redrives"),
    Place(gettext_noop("Operations on {name}"), "topic_operations"),
    Place(gettext_noop("Disconnect clients of {name}"), "topic_disconnect"),
    Place(gettext_noop("Tune producers of {name}"), "topic_tune"),
    Place(gettext_noop("Unload {name}"), "topic_unload"),
    Place(gettext_noop("Compact {name}"), "topic_compact"),
    Place(gettext_noop("Trim {name}"), "topic_trim"),
    Place(gettext_noop("Truncate {name}"), "topic_truncate"),
    Place(gettext_noop("Terminate {name}"), "topic_terminate"),
    Place(gettext_noop("Add partitions to {name}"), "topic_partitions", "partitions"),
    Place(gettext_noop("Delete topic {name}"), "topic_delete", "remove"),
    Place(gettext_noop("New subscription of {name}"), "subscription_create", "subscribe cursor"),
)
OF_SUBSCRIPTION = (
    Place(gettext_noop("Why nothing arrives at {name}"), "subscription_why", "held stopped stuck blocked explain"),
    Place(gettext_noop("History of {name}"), "subscription_history", "charts past"),
    Place(gettext_noop("Dead-letter policy of {name}"), "dead_letter_policy", "dlq retry"),
    Place(gettext_noop("Reset {name}"), "subscription_reset", "seek rewind replay"),
    Place(gettext_noop("Skip messages of {name}"), "subscription_skip"),
    Place(gettext_noop("Clear {name}"), "subscription_clear"),
    Place(gettext_noop("Expire messages of {name}"), "subscription_expire"),
    Place(gettext_noop("Delete subscription {name}"), "subscription_delete", "unsubscribe remove"),
)
FILLERS = frozenset({"a", "from", "in", "message", "messages", "of", "on", "subscription", "the", "to", "topic"})
WORD_LENGTH_MIN = 3  # letters of an action, before names are looked for with what follows


def route_name(route: str) -> str:
    """With the namespace that it is in: some pages of what people keep for themselves are a library's, and in none."""
    return route if ("GET", route) in CONSOLE else f"console:{route}"


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
            for each in f"{place.label} {gettext(place.label)} {place.also}".lower().replace("{name}", "").split()
            if each not in FILLERS or place.label.lower().startswith(each)
        )
    ]
