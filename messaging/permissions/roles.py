"""The roles that people, teams and keys can have in a tenant: names for sets of actions. Tenants define further ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from messaging.permissions.model import Action, Binding, Scope

# Whoever has an action has these, too: nobody who may consume has to be told the names of topics in addition.
_WITH: dict[Action, tuple[Action, ...]] = {
    Action.LOOKUP: (Action.NAMESPACE_READ,),
    Action.PRODUCE: (Action.LOOKUP,),
    Action.CONSUME: (Action.MESSAGE_READ, Action.CURSOR_ADMIN),
    Action.MESSAGE_READ: (Action.LOOKUP,),
    Action.CURSOR_ADMIN: (Action.LOOKUP,),
    Action.TOPIC_ADMIN: (Action.LOOKUP,),
    Action.NAMESPACE_ADMIN: (Action.NAMESPACE_READ,),
    Action.OPERATE: (Action.CURSOR_ADMIN,),
    Action.GRANT_ADMIN: (Action.LOOKUP,),
    Action.KEY_ADMIN: (Action.TENANT_READ,),
    Action.BILLING_READ: (Action.USAGE_READ,),
    Action.BILLING_ADMIN: (Action.BILLING_READ,),
    Action.TENANT_ADMIN: (Action.TENANT_READ,),
}
# Actions on what a tenant has, the ones that roles are made of. The others are of the platform, or of the protocol.
OF_TENANT: tuple[Action, ...] = tuple(Action)[tuple(Action).index(Action.LOOKUP) : tuple(Action).index(Action.TENANT_OWNER) + 1]
# Those that a role of a tenant's own may have: owners are made by the built-in role alone.
CUSTOM_ACTIONS = tuple(action for action in OF_TENANT if action is not Action.TENANT_OWNER)
KEY_ACTIONS = (Action.PRODUCE, Action.CONSUME)  # what a key can be made for
OWNER = "owner"
FORMER_NAMES = {"member": "metadata"}  # before there were roles, a person was an owner or a member


def known(names: Iterable[str]) -> list[Action]:
    """The actions of these names; those that this release does not know are left out."""
    return [Action(name) for name in names if name in CUSTOM_ACTIONS]


def complete(actions: Iterable[Action]) -> frozenset[Action]:
    """`actions` and all that come with them."""
    complete_set = {Action.TENANT_SEE}
    waiting = list(actions)
    while waiting:
        action = waiting.pop()
        if action not in complete_set:
            complete_set.add(action)
            waiting += _WITH.get(action, ())
    return frozenset(complete_set)


def key_binding(actions: Iterable[str], namespace: str, topics: str) -> Binding:
    """Of an entry of a key's scope. `namespace` is tenant/namespace, or "" for all of the key's tenant."""
    wanted = [action for action in KEY_ACTIONS if action in actions]
    return Binding(" and ".join(wanted), complete(wanted), Scope(namespace, topics))


class BuiltInRole(NamedTuple):
    name: str
    description: str
    actions: frozenset[Action]


def _role(name: str, description: str, *actions: Action) -> tuple[str, BuiltInRole]:
    return name, BuiltInRole(name, description, complete(actions))


_READS = (Action.TENANT_READ, Action.LOOKUP, Action.USAGE_READ)
BUILT_IN: dict[str, BuiltInRole] = dict(
    (
        _role(OWNER, "Does everything in the tenant, and makes other owners.", *OF_TENANT),
        _role("admin", "Does everything in the tenant but make owners.", *CUSTOM_ACTIONS),
        _role(
            "operator",
            "Keeps topics and subscriptions working: policies, positions, redrives and alerts. Reads no messages.",
            *_READS,
            Action.CURSOR_ADMIN,
            Action.TOPIC_ADMIN,
            Action.NAMESPACE_ADMIN,
            Action.OPERATE,
            Action.AUDIT_READ,
        ),
        _role(
            "developer",
            "Creates topics, publishes and consumes.",
            *_READS,
            Action.PRODUCE,
            Action.CONSUME,
            Action.TOPIC_ADMIN,
        ),
        _role("viewer", "Sees everything, with what messages hold, and changes nothing.", *_READS, Action.MESSAGE_READ),
        _role("metadata", "Sees everything but what messages hold, and changes nothing.", *_READS),
        _role("billing", "Sees usage, costs and invoices, and sets budgets and reports.", Action.BILLING_ADMIN),
    )
)
