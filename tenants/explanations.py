"""Why somebody may do something in a tenant, and who else may: the decision itself, asked for everybody that the tenant knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from django.db.models import QuerySet

from messaging.errors import InvalidValue, NotFound
from messaging.permissions.decision import Decision, decide, refusal, text_of, text_of_key
from messaging.permissions.model import Action, Principal, Resource, Scope
from messaging.permissions.roles import OF_TENANT
from tenants.grants import DatabaseGrants
from tenants.models import Grant, Key, Membership, Namespace, Tenant
from tenants.names import namespace_of, subscription_of, topic_of
from tenants.scoping import tenant_scope

SUBJECTS_MAX = 5_000  # that are looked at for one answer


class Question(NamedTuple):
    action: Action
    resource: Resource


class Answer(NamedTuple):
    """`refusal` is empty for what is allowed."""

    principal: Principal
    decision: Decision
    refusal: str


class Others(NamedTuple):
    """Whoever may. `complete` False: there are more subjects than are looked at."""

    answers: list[Answer]
    complete: bool


class Subjects(NamedTuple):
    """Whom a tenant knows, up to one more than are looked at; `grants` has read what decisions about them ask for."""

    grants: DatabaseGrants
    principals: list[Principal]


class Part(NamedTuple):
    """What somebody may in a part (`where`) of what was asked for, and perhaps in all of it, for other reasons."""

    principal: Principal
    where: str
    actions: frozenset[Action]
    because: tuple[str, ...]


class Explained(NamedTuple):
    own: Answer
    others: Others


def explained(tenant: str, asked: Mapping[str, str]) -> Explained:
    """`asked`: `action`, and of `role`, `key_id`, `namespace` (local name), `topic` and `subscription` what there is. The tenant
    exists. Raises `InvalidValue`, `InvalidName`, `NotFound`."""
    question = Question(action_of(asked.get("action", "")), resource_of(tenant, asked))
    subject = subject_of(tenant, asked.get("role", ""), asked.get("key_id", ""))
    return Explained(why(question, subject), who(tenant, question))


def resource_of(tenant: str, asked: Mapping[str, str]) -> Resource:
    """Raises `InvalidName`, `InvalidValue`, `NotFound` for a namespace that does not exist."""
    parts = {name: asked.get(name, "") for name in ("namespace", "topic", "subscription")}
    if not parts["namespace"]:
        if parts["topic"] or parts["subscription"]:
            raise InvalidValue("topic and subscription need a namespace: give it, too")
        return Resource(tenant)
    name = str(namespace_of(tenant, parts["namespace"]))
    with tenant_scope(tenant):
        if not Namespace.objects.filter(name=name).exists():
            raise NotFound(f"namespace {name!r} does not exist")
    topic = str(topic_of({"tenant": tenant, **parts})) if parts["topic"] else ""
    return Resource(tenant, name, topic, subscription_of(parts["subscription"]) if parts["subscription"] else "")


def action_of(name: str) -> Action:
    """Raises `InvalidValue`."""
    if name not in OF_TENANT:
        raise InvalidValue(f"action {name[:40]!r} is not one of {', '.join(OF_TENANT)}")
    return Action(name)


def subject_of(tenant: str, role: str, key_id: str) -> Principal:
    """By the id of a key of the tenant, or by a role. Raises `InvalidValue`, `NotFound`."""
    if bool(role) == bool(key_id):
        raise InvalidValue("give either role, such as user:ann or app@tenant, or key_id")
    if role:
        return Principal(role)
    with tenant_scope(tenant):
        key = Key.objects.filter(id=key_id).first()
    if key is None:
        raise NotFound(f"key {key_id[:64]!r} does not exist")
    return Principal(key.role, key.id)


def why(question: Question, principal: Principal) -> Answer:
    return _answered(DatabaseGrants(), question, principal)


def who(tenant: str, question: Question) -> Others:
    """Members, keys, admin roles, and roles that were granted something there. A key without a scope is meant by its role."""
    (others,) = who_of_each(subjects(tenant, question.resource), question.resource, [question.action])
    return others


def subjects(tenant: str, resource: Resource) -> Subjects:
    """Read once, for all that is asked about them."""
    grants = DatabaseGrants()
    return Subjects(grants, list(islice(_subjects(tenant, resource, grants), SUBJECTS_MAX + 1)))


def who_of_each(known: Subjects, resource: Resource, actions: Sequence[Action]) -> list[Others]:
    """Of each action, in one look at everybody."""
    grants, found, complete = known.grants, [list[Answer]() for _ in actions], True
    for count, principal in enumerate(known.principals):
        if count == SUBJECTS_MAX:
            complete = False
            break
        for action, answers in zip(actions, found, strict=True):
            decision = decide(grants, principal, action, resource)
            if decision.allowed:  # why it is refused to thousands of others, nobody asked
                answers.append(Answer(principal, decision, ""))
    return [Others(answers, complete) for answers in found]


def who_of_parts(known: Subjects, resource: Resource, actions: Sequence[Action]) -> tuple[list[Part], bool]:
    """Whoever has a role on, or was granted, a part of a tenant, a namespace or a topic. False: there are more grants than are
    looked at. Of subjects those of `who_of_each` are, which says so itself."""
    with tenant_scope(resource.tenant):
        rows = list(_grants_of_parts(resource).values_list("namespace_id", "topic", "role")[: SUBJECTS_MAX + 1])
    return list(_parts(known, resource, actions, rows[:SUBJECTS_MAX])), len(rows) <= SUBJECTS_MAX


def _parts(known: Subjects, resource: Resource, actions: Sequence[Action], rows: Sequence[tuple[str, str, str]]) -> Iterator[Part]:
    """`rows`: namespace, topic and role of grants."""
    grants, tenant, wanted = known.grants, resource.tenant, frozenset(actions)
    for principal in known.principals[:SUBJECTS_MAX]:
        of_key = bool(principal.key_id)
        bindings = grants.key_bindings(principal.key_id) if of_key else grants.bindings(tenant, principal.role)
        for binding in bindings or ():
            if (may := wanted & binding.actions) and _is_of_part(binding.scope, resource):
                text = text_of_key(principal, binding) if of_key else text_of(principal.role, binding)
                yield Part(principal, str(binding.scope), may, (text,))
    grants.read_namespaces([namespace for namespace, _, _ in rows])
    for namespace, topic, role in rows:
        part, principal = Resource(tenant, namespace, topic), Principal(role)
        decided = {action: decide(grants, principal, action, part) for action in actions}
        if may := frozenset(action for action, decision in decided.items() if decision.allowed):
            because = dict.fromkeys(reason.text for decision in decided.values() for reason in decision.reasons)
            yield Part(principal, topic or str(Scope(namespace)), may, tuple(because))


def _is_of_part(scope: Scope, resource: Resource) -> bool:
    if resource.topic or (scope.namespace and resource.namespace and scope.namespace != resource.namespace):
        return False
    return not scope.covers(resource)


def _grants_of_parts(resource: Resource) -> QuerySet[Grant]:
    if not resource.namespace:
        return Grant.objects.all()
    rows = Grant.objects.filter(namespace=resource.namespace)
    return rows.filter(topic__startswith=f"{resource.topic}-partition-") if resource.topic else rows.exclude(topic="")


def _answered(grants: DatabaseGrants, question: Question, principal: Principal) -> Answer:
    decision = decide(grants, principal, question.action, question.resource)
    why_not = "" if decision.allowed else refusal(grants, principal, question.action, question.resource)
    return Answer(principal, decision, why_not)


def _subjects(tenant: str, resource: Resource, grants: DatabaseGrants) -> Iterator[Principal]:
    with tenant_scope(tenant):
        members = list(Membership.objects.select_related("user").order_by("id")[: SUBJECTS_MAX + 1])
        keys = list(Key.objects.filter(revoked_at=None).order_by("role", "id")[: SUBJECTS_MAX + 1])
        admins = Tenant.objects.values_list("admin_roles", flat=True).first() or []
        granted = Grant.objects.filter(namespace=resource.namespace).values_list("role", flat=True) if resource.namespace else ()
        roles = dict.fromkeys([*admins, *granted[: SUBJECTS_MAX + 1], *(key.role for key in keys if key.scope is None)])
    grants.remember(tenant, members, keys)  # a few queries for all of them
    yield from (Principal(row.user.role) for row in members)
    yield from (Principal(role) for role in roles)
    yield from (Principal(key.role, key.id) for key in keys if key.scope is not None)
