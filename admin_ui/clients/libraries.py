"""Client libraries by what they call themselves when they connect, and versions of them with known problems. Pure.

Conservative: only what the library's own project has published, with the versions that it names. A library or a version that is not
understood has no known problem, which is not to say that it has none.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from admin_ui.translation.texts import gettext_lazy

Version = tuple[int, int, int]
_LIBRARY = re.compile(r"[A-Za-z][A-Za-z+#. _-]*")
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}(?:\.\d{1,4})?")


class Problem(NamedTuple):
    """`ranges`: first and last version of each, inclusive. `fixed`: the versions that have it no more."""

    name: str
    libraries: tuple[str, ...]
    ranges: tuple[tuple[Version, Version], ...]
    text: str
    fixed: str
    source: str


_OLD: tuple[tuple[Version, Version], ...] = (
    ((0, 0, 0), (2, 6, 4)),
    ((2, 7, 0), (2, 7, 4)),
    ((2, 8, 0), (2, 8, 3)),
    ((2, 9, 0), (2, 9, 2)),
)
PROBLEMS = (
    Problem(
        "CVE-2022-33681",
        ("Pulsar-Java", "Pulsar Java"),
        (*_OLD, ((2, 10, 0), (2, 10, 0))),
        gettext_lazy("Over TLS it sends its credentials before it has compared the name in the broker's certificate."),
        "2.7.5, 2.8.4, 2.9.3, 2.10.1",
        "https://github.com/apache/pulsar/wiki/CVE-2022-33681",
    ),
    Problem(
        "CVE-2022-33684",
        ("Pulsar-CPP", "Pulsar CPP"),
        (*_OLD, ((2, 10, 0), (2, 10, 1))),
        gettext_lazy("It does not check the certificate of the OAuth 2.0 server from which it gets its credentials."),
        "2.7.5, 2.8.4, 2.9.3, 2.10.2, 3.0.0",
        "https://github.com/apache/pulsar/wiki/CVE-2022-33684",
    ),
)


class Library(NamedTuple):
    """`version` None: it was not understood, and `name` is all that the client said."""

    name: str
    version: Version | None
    problems: tuple[Problem, ...]


def library_of(client: str) -> Library:
    """Clients say what they like: it is looked at once from left to right, however long it is."""
    found = _VERSION.search(client)
    before = client[: found.start()] if found is not None else ""
    if found is None or not _LIBRARY.fullmatch(before):
        return Library(client, None, ())
    numbers = [int(part) for part in found[0].split(".")]
    version = (numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else 0)
    name = before.removesuffix("v").rstrip("-_ ") or before
    known = tuple(
        problem
        for problem in PROBLEMS
        if name in problem.libraries and any(first <= version <= last for first, last in problem.ranges)
    )
    return Library(name, version, known)
