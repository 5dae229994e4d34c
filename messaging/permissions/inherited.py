"""What a role holds on a namespace or a topic, from what was granted: the rules that broker and web share.

Two stores hold grants, the broker's snapshot and the web's database. Each says what is stored; what follows from it is said here,
once: a partition inherits its partitioned topic's grants and adds its own, and anonymous clients may use `public/default` where
that is open, besides what an administrator granted them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from messaging.permissions.model import ANONYMOUS
from messaging.protocol.names import parse_topic

ANONYMOUS_NAMESPACE = "public/default"
_ANONYMOUS_GRANT: Mapping[str, Collection[str]] = {ANONYMOUS: ("produce", "consume")}
_NOTHING: Mapping[str, Collection[str]] = {}


class InheritedGrants:
    """The part of `messaging.permissions.model.Grants` that follows from stored grants."""

    def stored_grants(self, namespace: str, topic: str) -> Mapping[str, Collection[str]]:
        """role -> actions granted on exactly this topic (full name), or on the whole namespace for ``""``."""
        raise NotImplementedError

    def opens_public(self) -> bool:
        """Whether anonymous clients may use `public/default`: it exists, and the settings allow it."""
        raise NotImplementedError

    def namespace_grants(self, namespace: str) -> Mapping[str, Collection[str]]:
        stored = self.stored_grants(namespace, "")
        if namespace == ANONYMOUS_NAMESPACE and self.opens_public():
            return _added(stored, _ANONYMOUS_GRANT)
        return stored

    def topic_grants(self, topic: str) -> Mapping[str, Collection[str]]:
        name = parse_topic(topic)
        namespace = str(name.namespace)
        own = self.stored_grants(namespace, str(name))
        return own if name.partition < 0 else _added(own, self.stored_grants(namespace, str(name.base)))


def _added(first: Mapping[str, Collection[str]], second: Mapping[str, Collection[str]]) -> Mapping[str, Collection[str]]:
    if not first or not second:
        return first or second or _NOTHING
    return {role: {*first.get(role, ()), *second.get(role, ())} for role in {*first, *second}}
