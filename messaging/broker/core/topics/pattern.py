"""Patterns of topic names, as clients send them with a listing. Pure.

A pattern comes from a client and is matched against names that others chose, so it is matched in linear time, by RE2, as Pulsar's
broker does. What RE2 does not know (look-ahead, back references), or what takes too much memory, is left to the client.
"""

from __future__ import annotations

import re2

from messaging.errors import InvalidName, InvalidValue, NotAllowed
from messaging.protocol.names import PERSISTENT, NamespaceName, parse_namespace
from messaging.storage.meta_store import partitioned_name

PATTERN_MEMORY_BYTES = 256 << 10  # of one pattern while it is in use


class TopicPattern:
    """Matches whole names without their scheme (``tenant/namespace/topic``), of a partition that of its topic. Raises `NotAllowed`
    for a pattern that is not evaluated here. May be used in any thread."""

    __slots__ = ("_matcher",)

    def __init__(self, text: str) -> None:
        options = re2.Options()
        options.max_mem = PATTERN_MEMORY_BYTES
        options.log_errors = False
        matcher = re2.Set.FullMatchSet(options)
        try:
            matcher.Add(text.partition("://")[2] or text)
            matcher.Compile()  # this is where what takes too much memory is found, after up to 40 ms
        except re2.error:
            raise NotAllowed(
                f"the pattern {text[:80]!r} is not evaluated by the broker: use the syntax of RE2, or let the client match names"
            ) from None
        self._matcher = matcher

    def matching(self, names: list[str]) -> list[str]:
        """Those of `names`, full names of topics, that it matches."""
        match, last_base, last = self._matcher.Match, "", False
        matches = []
        for name in names:
            base = name.partition("://")[2]
            if "-partition-" in base:
                base = partitioned_name(base)
            if base != last_base:  # partitions of a topic follow one another
                last_base, last = base, bool(match(base))
            if last:
                matches.append(name)
        return matches


def matching(pattern: str, names: list[str]) -> list[str] | None:
    """Those of `names` that `pattern` matches; None if it is not evaluated here."""
    try:
        return TopicPattern(pattern).matching(names)
    except NotAllowed:
        return None


def namespace_of(pattern: str) -> NamespaceName:
    """Of ``persistent://tenant/namespace/expression`` or, in public/default, of an expression. Raises `InvalidValue`."""
    domain, separator, rest = pattern.partition("://")
    if not separator:
        rest = pattern if "/" in pattern else f"public/default/{pattern}"
    elif domain != PERSISTENT:
        raise InvalidValue(f"the pattern {pattern[:80]!r} is not of persistent topics: begin with {PERSISTENT}://, or name topics")
    tenant, _, rest = rest.partition("/")
    namespace, _, expression = rest.partition("/")
    try:
        if expression:
            return parse_namespace(f"{tenant}/{namespace}")
    except InvalidName:
        pass
    raise InvalidValue(
        f"the pattern {pattern[:80]!r} is not {PERSISTENT}://tenant/namespace/expression: only the last part may be an expression"
    )
