"""Names of tenants, namespaces, topics and subscriptions, parsed once into validated values.

Authorise and act on the same parsed value, never on the text it came from. Rules are Pulsar's: a tenant, namespace or cluster
is one or more of ``[-=:.\\w]``; a topic is ``persistent://tenant/namespace/local``, and ``local`` alone means ``public/default``.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from messaging.errors import InvalidName, InvalidSubscriptionName

_ENTITY = re.compile(r"[-=:.\w]+", re.ASCII)
_PARTITION = re.compile(r"(.+)-partition-(0|[1-9][0-9]{0,5})")  # one spelling per number: 07 is not 7
NAME_LENGTH_MAX = 255
PERSISTENT = "persistent"
NON_PERSISTENT = "non-persistent"
TOPIC_LENGTH_MAX = len(f"{NON_PERSISTENT}://") + 3 * NAME_LENGTH_MAX + 2  # of a full name


def entity_name(kind: str, text: str) -> str:
    """Returns `text` if it is a valid name of a tenant, namespace, cluster, key or role; else raises `InvalidName`."""
    if not _ENTITY.fullmatch(text) or text in (".", "..") or len(text) > NAME_LENGTH_MAX:
        raise InvalidName(f"{kind} name {text[:80]!r} is not valid: use 1 to {NAME_LENGTH_MAX} letters, digits or any of - = : . _")
    return text


def subscription_name(text: str) -> str:
    """Returns `text` if it is a valid subscription name: any printable text but the prefix reserved for replicators."""
    if not text or len(text) > NAME_LENGTH_MAX or not text.isprintable():
        raise InvalidSubscriptionName(
            f"subscription name {text[:80]!r} is not valid: use 1 to {NAME_LENGTH_MAX} printable characters"
        )
    if text.startswith("pulsar.repl.") or text == "pulsar.dedup":
        raise InvalidSubscriptionName(f"subscription name {text!r} is reserved for the broker: choose another")
    return text


class NamespaceName(NamedTuple):
    tenant: str
    local: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.local}"


class TopicName(NamedTuple):
    domain: str
    tenant: str
    namespace_local: str
    local: str

    @property
    def namespace(self) -> NamespaceName:
        return NamespaceName(self.tenant, self.namespace_local)

    @property
    def persistent(self) -> bool:
        return self.domain == PERSISTENT

    @property
    def partition(self) -> int:
        """The index after ``-partition-``, or -1 for a name without one."""
        match = _PARTITION.fullmatch(self.local)
        return int(match[2]) if match else -1

    @property
    def base(self) -> TopicName:
        """The partitioned topic that this partition belongs to; for any other name, the name itself."""
        match = _PARTITION.fullmatch(self.local)
        return self._replace(local=match[1]) if match else self

    def of_partition(self, index: int) -> TopicName:
        return self._replace(local=f"{self.local}-partition-{index}")

    def __str__(self) -> str:
        return f"{self.domain}://{self.tenant}/{self.namespace_local}/{self.local}"


@lru_cache(4096)
def parse_namespace(text: str) -> NamespaceName:
    parts = text.split("/")
    if len(parts) != 2:
        raise InvalidName(f"namespace {text[:160]!r} is not valid: use tenant/namespace")
    return NamespaceName(entity_name("tenant", parts[0]), entity_name("namespace", parts[1]))


@lru_cache(8192)
def parse_topic(text: str) -> TopicName:
    """Parses the three spellings clients use: ``domain://t/n/local``, ``t/n/local`` and ``local``."""
    domain, separator, rest = text.partition("://")
    if not separator:
        domain, rest = PERSISTENT, text
        if "/" not in rest:
            rest = f"public/default/{rest}"
    if domain not in (PERSISTENT, NON_PERSISTENT):
        raise InvalidName(f"topic {text[:160]!r} is not valid: it must start with persistent:// or non-persistent://")
    parts = rest.split("/")
    if len(parts) != 3:
        raise InvalidName(f"topic {text[:160]!r} is not valid: use {domain}://tenant/namespace/topic")
    tenant, namespace, local = parts
    if "%" in local:
        local = _decoded(text, local)
    if not local or len(local) > NAME_LENGTH_MAX or not local.isprintable() or "/" in local:
        raise InvalidName(
            f"topic {text[:160]!r} is not valid: its last part must have 1 to {NAME_LENGTH_MAX} printable characters without /"
        )
    # Interned: 100,000 topics of one namespace share the strings of its names.
    return TopicName(
        sys.intern(domain), sys.intern(entity_name("tenant", tenant)), sys.intern(entity_name("namespace", namespace)), local
    )


def _decoded(text: str, local: str) -> str:
    """`local` without percent-encoding. Refuses a name that decodes further: a parsed name, written out, must parse to itself."""
    try:
        decoded = unquote(local, errors="strict")
        if unquote(decoded, errors="strict") == decoded:
            return decoded
    except UnicodeDecodeError:
        pass
    raise InvalidName(f"topic {text[:160]!r} is not valid: its last part must be percent-encoded UTF-8, at most once")
