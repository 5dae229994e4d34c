"""Which tenants and namespaces a person may see the problems of: those whose topics they may list, as pages of namespaces do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from admin_ui.topics_of_member import topic_scopes
from messaging.adminrpc.problems import ProblemsList
from messaging.permissions.model import Action, Resource
from tenants.access import Actor
from tenants.models import Namespace
from tenants.scoping import platform_scope
from tenants.visible import closed_tenants, open_tenants

TENANTS_MAX, NAMESPACES_MAX = 1_000, 1_000  # in one question to the broker


class VisibleScope(NamedTuple):
    """`tenants`: whole ones; `namespaces` (tenant/namespace): single ones of others. `everywhere`: those of administrators of the
    platform, who are told of all but those in `closed`. `left_out`: how many tenants and namespaces are more than one question may
    be about. `in_part`: tenants of which nothing is asked, and of which the person may see single topics."""

    everywhere: bool
    tenants: list[str]
    namespaces: list[str]
    left_out: int = 0
    closed: Sequence[str] = ()
    in_part: Sequence[str] = ()

    def question(self, problems_max: int) -> ProblemsList | None:
        """None: about nothing."""
        if not (self.everywhere or self.tenants or self.namespaces):
            return None
        return ProblemsList(
            of_tenants=self.tenants,
            of_namespaces=self.namespaces,
            everywhere=self.everywhere,
            closed=list(self.closed),
            problems_max=problems_max,
        )


def visible_scope(actor: Actor) -> VisibleScope:
    """Everything that the person may see."""
    if actor.may(Action.SUPERUSER):
        closed = list(closed_tenants(actor).values_list("name", flat=True)[: TENANTS_MAX + 1])
        if len(closed) <= TENANTS_MAX:
            return VisibleScope(True, [], [], closed=closed)
    names = list(open_tenants(actor).values_list("name", flat=True))
    actor.grants.read_tenants(names)
    return scope_within(actor, sorted(names))


def scope_within(actor: Actor, names: Iterable[str]) -> VisibleScope:
    """Of these tenants."""
    names = list(names)
    whole = [name for name in names if actor.may(Action.NAMESPACE_READ, Resource(name))]
    others = set(names) - set(whole)
    with platform_scope():
        listed = list(Namespace.objects.filter(tenant__in=others).values_list("tenant_id", "name")) if others else []
        actor.grants.read_namespaces([name for _, name in listed])
        single = [name for tenant, name in listed if actor.may(Action.NAMESPACE_READ, Resource(tenant, name))]
    left_out = max(0, len(whole) - TENANTS_MAX) + max(0, len(single) - NAMESPACES_MAX)
    in_part = [name for name in sorted(others) if topic_scopes(actor, name)]
    return VisibleScope(False, whole[:TENANTS_MAX], single[:NAMESPACES_MAX], left_out, in_part=in_part)
