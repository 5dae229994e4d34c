"""Isolation policies: which brokers may have which namespaces, by expressions that names match as a whole. Pure.

Expressions are matched in linear time, by RE2: an operator's ``(a+)+`` delays nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import re2

from messaging.errors import InvalidValue

POLICIES_MAX = 100  # of a platform
EXPRESSIONS_MAX = 64  # in one list of a policy
EXPRESSION_BYTES_MAX = 256
EXPRESSIONS_MEMORY_BYTES = 256 << 10  # of one list while it is in use

UnloadScope: TypeAlias = Literal["all_matching", "changed", "none"]
UNLOAD_SCOPES: tuple[UnloadScope, ...] = ("all_matching", "changed", "none")
UNLOAD_SCOPE_DEFAULT: UnloadScope = "changed"


class Isolation(NamedTuple):
    """`primary` brokers are reserved for these namespaces; `secondary` ones are used as well while fewer than `min_limit` primary
    brokers take bundles. `usage_threshold` is kept for Pulsar's tools, whose brokers do not use it either. `unload_scope`: which
    bundles move when the policy changes."""

    namespaces: tuple[str, ...]
    primary: tuple[str, ...]
    secondary: tuple[str, ...] = ()
    min_limit: int = 1
    usage_threshold: int = 100
    unload_scope: UnloadScope = UNLOAD_SCOPE_DEFAULT


class Expressions:
    """Some of them, of which a name has to match one as a whole. Raises `InvalidValue`, which names the one that is not valid."""

    __slots__ = ("_matcher",)

    def __init__(self, texts: Sequence[str]) -> None:
        options = re2.Options()
        options.max_mem = EXPRESSIONS_MEMORY_BYTES
        options.log_errors = False
        matcher = re2.Set.FullMatchSet(options)
        for text in texts:
            try:
                matcher.Add(text)
            except re2.error:
                raise InvalidValue(
                    f"{text[:80]!r} is not a valid expression: it is matched in the syntax of RE2, without look-ahead and back "
                    "references"
                ) from None
        try:
            matcher.Compile()
        except re2.error:
            raise InvalidValue(
                f"the expressions {', '.join(texts)[:80]!r} take too much memory to match: shorten them, or repeat less in them"
            ) from None
        self._matcher = matcher if texts else None

    def match(self, name: str) -> bool:
        return self._matcher is not None and bool(self._matcher.Match(name))


def check_isolation(isolation: Isolation) -> None:
    """Raises `InvalidValue` for one that cannot be held."""
    if not isolation.namespaces or not isolation.primary:
        raise InvalidValue("an isolation policy names at least one namespace and one primary broker, each by an expression")
    if isolation.min_limit < 0:
        raise InvalidValue(f"min_limit is 0 or more, and {isolation.min_limit} was given")
    if not 0 <= isolation.usage_threshold <= 100:
        raise InvalidValue(f"usage_threshold is a percentage from 0 to 100, and {isolation.usage_threshold} was given")
    for texts in (isolation.namespaces, isolation.primary, isolation.secondary):
        if any(not text.strip() for text in texts):
            raise InvalidValue("an expression is empty: leave it out")
        Expressions(texts)


def isolation_from(state: Mapping[str, Any]) -> Isolation:
    """Of a row, or of what brokers are told of it."""
    return Isolation(
        tuple(state["namespaces"]),
        tuple(state["primary"]),
        tuple(state.get("secondary", ())),
        state.get("min_limit", 1),
        state.get("usage_threshold", 100),
        state.get("unload_scope", UNLOAD_SCOPE_DEFAULT),
    )


class IsolationRules:
    """All policies of a platform. `policies`: by name; where several match a namespace, the first by its name holds."""

    def __init__(self, policies: Mapping[str, Isolation]) -> None:
        self.policies = dict(sorted(policies.items()))
        self._namespaces = {name: Expressions(each.namespaces) for name, each in self.policies.items()}
        self._primary = {name: Expressions(each.primary) for name, each in self.policies.items()}
        self._secondary = {name: Expressions(each.secondary) for name, each in self.policies.items()}
        self._of_namespace: dict[str, str] = {}
        self._of_broker: dict[str, dict[str, str]] = {}

    def policy_of(self, namespace: str) -> str:
        """The name of the policy that holds for a namespace; "": none."""
        if not self.policies:
            return ""
        known = self._of_namespace.get(namespace)
        if known is None:
            known = next((name for name, each in self._namespaces.items() if each.match(namespace)), "")
            _remember(self._of_namespace, namespace, known)
        return known

    def roles_of(self, broker_id: str) -> Mapping[str, str]:
        """What a broker is to each policy that names it: `primary` or `secondary`."""
        known = self._of_broker.get(broker_id)
        if known is None:
            known = {}
            for name in self.policies:
                if self._primary[name].match(broker_id):
                    known[name] = "primary"
                elif self._secondary[name].match(broker_id):
                    known[name] = "secondary"
            _remember(self._of_broker, broker_id, known)
        return known

    def is_shared(self, broker_id: str) -> bool:
        """Whether namespaces without a policy may be there: it is reserved by none."""
        return "primary" not in self.roles_of(broker_id).values()

    def among(self, namespace: str, running: Sequence[str]) -> list[str]:
        """Those of the brokers that run which may have the namespace, in their order."""
        if not self.policies:
            return list(running)
        name = self.policy_of(namespace)
        if not name:
            return [broker_id for broker_id in running if self.is_shared(broker_id)]
        roles = {broker_id: self.roles_of(broker_id).get(name) for broker_id in running}
        primaries = sum(role == "primary" for role in roles.values())
        enough = primaries >= self.policies[name].min_limit
        return [broker_id for broker_id, role in roles.items() if role == "primary" or (role == "secondary" and not enough)]

    def problems(self, running: Sequence[str]) -> list[str]:
        """What they leave unserved while these brokers take bundles, a sentence each."""
        if not self.policies or not running:
            return []
        found = []
        for name, policy in self.policies.items():
            roles = [self.roles_of(broker_id).get(name) for broker_id in running]
            if "primary" not in roles and ("secondary" not in roles or not policy.min_limit):
                matching = ", ".join(policy.namespaces)[:120]
                found.append(f"isolation policy {name} names no broker that runs: namespaces that match {matching} are not served")
        if not any(map(self.is_shared, running)):
            found.append("isolation policies reserve all brokers that run: namespaces without a policy are not served")
        return found

    def why_nobody(self, namespace: str) -> str:
        """Why no broker that runs may have the namespace."""
        name = self.policy_of(namespace)
        if not name:
            why = f"isolation policies reserve all brokers that run for other namespaces, and none holds for {namespace}"
            to_do = "an operator has to start another broker, or change one of them"
            return f"{why}: {to_do}"
        why = f"no broker that runs may serve namespace {namespace}, by isolation policy {name}"
        to_do = "an operator has to start one that it names, or change it"
        return f"{why}: {to_do}"


KNOWN_MAX = 10_000  # names of which it is remembered what they match


def _remember(known: dict[str, Any], name: str, what: Any) -> None:
    if len(known) >= KNOWN_MAX:
        known.clear()
    known[name] = what
