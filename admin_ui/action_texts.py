"""What each action of the permission table is, for whoever puts a role together."""

from __future__ import annotations

from admin_ui.translation.texts import gettext_lazy
from messaging.permissions.model import Action

TEXTS: dict[Action, str] = {
    Action.LOOKUP: gettext_lazy("See a topic, its statistics and its schemas."),
    Action.PRODUCE: gettext_lazy("Publish messages, and cancel or reschedule delayed ones."),
    Action.CONSUME: gettext_lazy("Receive and acknowledge messages."),
    Action.MESSAGE_READ: gettext_lazy("Read messages without acknowledging them."),
    Action.CURSOR_ADMIN: gettext_lazy("Create, reset, skip and delete subscriptions, without reading messages."),
    Action.NAMESPACE_READ: gettext_lazy("List the topics of a namespace, and see its policies."),
    Action.TENANT_SEE: gettext_lazy("Know that the tenant exists. Every role has it."),
    Action.TENANT_READ: gettext_lazy("See keys, members, roles and policies of the tenant."),
    Action.TOPIC_ADMIN: gettext_lazy("Create and delete topics, and change their policies and schemas."),
    Action.NAMESPACE_ADMIN: gettext_lazy("Create and delete namespaces, and change their policies."),
    Action.OPERATE: gettext_lazy("Unload topics, redrive dead letters and set alerts; restrictions of subscriptions do not apply."),
    Action.GRANT_ADMIN: gettext_lazy("Grant and revoke permissions on namespaces, topics and subscriptions."),
    Action.KEY_ADMIN: gettext_lazy("Create, rotate and revoke keys."),
    Action.AUDIT_READ: gettext_lazy("Read the audit log of the tenant."),
    Action.USAGE_READ: gettext_lazy("See what the tenant used, and what that costs."),
    Action.BILLING_READ: gettext_lazy("See invoices, budgets and reports."),
    Action.BILLING_ADMIN: gettext_lazy("Set budgets, reports and the spend cap of the tenant's own."),
    Action.TENANT_ADMIN: gettext_lazy("Manage people, roles, labels, and everything that no other action covers."),
    Action.TENANT_OWNER: gettext_lazy("Make owners, and take that away."),
}

# What a built-in role is for, where one is chosen; `messaging.permissions.roles` says it at length.
ROLE_TEXTS = {
    "owner": gettext_lazy("does everything, and makes other owners"),
    "admin": gettext_lazy("does everything but make owners"),
    "operator": gettext_lazy("keeps topics and subscriptions working; reads no messages"),
    "developer": gettext_lazy("creates topics, publishes and consumes"),
    "viewer": gettext_lazy("reads everything, messages too; changes nothing"),
    "metadata": gettext_lazy("reads everything but messages; changes nothing"),
    "billing": gettext_lazy("reads usage and costs; sets budgets"),
}
