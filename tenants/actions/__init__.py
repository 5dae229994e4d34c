"""What can be done to the control plane, as plain functions: the only way its rows change.

Each takes the `Actor` first, asks for permission, then in one transaction writes the rows, the audit record and the change of the
feed, and returns after the owning broker confirmed that it holds the change. If the broker does not answer, `NotReady` says that
the change is saved; it reaches the broker as soon as that is back. Each blocks (database, broker): none belongs on an event loop.
"""

from tenants.actions.custom_roles import delete_custom_role, set_custom_role
from tenants.actions.grants import (
    NamespacePermissions,
    TopicRoles,
    grant_on_topics,
    grant_permission,
    granting,
    restrict_subscription,
    revoke_on_topics,
    revoke_permission,
    unrestrict_subscription,
)
from tenants.actions.keys import KeyUse, NewKey, create_key, revoke_key, revoke_token, rotate_key
from tenants.actions.labels import set_labels
from tenants.actions.language import set_language
from tenants.actions.members import remove_member, set_member
from tenants.actions.namespaces import create_namespace, delete_namespace, set_policies, set_property
from tenants.actions.recycle_bin import purge_topic, restore_topic
from tenants.actions.recycled_namespaces import purge_namespace, restore_namespace
from tenants.actions.recycled_tenants import purge_tenant, restore_tenant
from tenants.actions.teams import RoleOfTeam, add_team_member, delete_team, remove_team_member, set_team
from tenants.actions.tenants import create_tenant, delete_tenant, set_tenant_policies, update_tenant
from tenants.actions.topic_operations import compact_topic, grow_topic, terminate_topic, trim_topic, truncate_topic, unload_topic
from tenants.actions.topic_policies import remove_topic_policies, set_topic_policies, topic_policies
from tenants.actions.topics import create_topic, delete_topic, forget_topic_policies

__all__ = [
    "compact_topic",
    "KeyUse",
    "RoleOfTeam",
    "add_team_member",
    "NewKey",
    "create_key",
    "create_namespace",
    "create_tenant",
    "create_topic",
    "delete_custom_role",
    "delete_namespace",
    "delete_team",
    "delete_tenant",
    "delete_topic",
    "forget_topic_policies",
    "NamespacePermissions",
    "TopicRoles",
    "grant_on_topics",
    "grant_permission",
    "granting",
    "grow_topic",
    "purge_namespace",
    "purge_tenant",
    "purge_topic",
    "restore_namespace",
    "restore_tenant",
    "restore_topic",
    "revoke_on_topics",
    "remove_member",
    "remove_team_member",
    "remove_topic_policies",
    "restrict_subscription",
    "revoke_key",
    "revoke_permission",
    "revoke_token",
    "rotate_key",
    "set_custom_role",
    "set_labels",
    "set_language",
    "set_member",
    "set_policies",
    "set_property",
    "set_team",
    "set_tenant_policies",
    "set_topic_policies",
    "terminate_topic",
    "topic_policies",
    "trim_topic",
    "truncate_topic",
    "unload_topic",
    "unrestrict_subscription",
    "update_tenant",
]
