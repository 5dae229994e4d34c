"""What each action of the permission table is, for whoever puts a role together."""

from __future__ import annotations

from messaging.permissions.model import Action

TEXTS: dict[Action, str] = {
    Action.LOOKUP: "See a topic, its statistics and its schemas.",
    Action.PRODUCE: "Publish messages, and cancel or reschedule delayed ones.",
    Action.CONSUME: "Receive and acknowledge messages.",
    Action.MESSAGE_READ: "Read messages without acknowledging them.",
    Action.CURSOR_ADMIN: "Create, reset, skip and delete subscriptions, without reading messages.",
    Action.NAMESPACE_READ: "List the topics of a namespace, and see its policies.",
    Action.TENANT_SEE: "Know that the tenant exists. Every role has it.",
    Action.TENANT_READ: "See keys, members, roles and policies of the tenant.",
    Action.TOPIC_ADMIN: "Create and delete topics, and change their policies and schemas.",
    Action.NAMESPACE_ADMIN: "Create and delete namespaces, and change their policies.",
    Action.OPERATE: "Unload topics, redrive dead letters and set alerts; restrictions of subscriptions do not apply.",
    Action.GRANT_ADMIN: "Grant and revoke permissions on namespaces, topics and subscriptions.",
    Action.KEY_ADMIN: "Create, rotate and revoke keys.",
    Action.AUDIT_READ: "Read the audit log of the tenant.",
    Action.USAGE_READ: "See what the tenant used, and what that costs.",
    Action.BILLING_READ: "See invoices, budgets and reports.",
    Action.BILLING_ADMIN: "Set budgets, reports and the spend cap of the tenant's own.",
    Action.TENANT_ADMIN: "Manage people, roles, labels, and everything that no other action covers.",
    Action.TENANT_OWNER: "Make owners, and take that away.",
}
