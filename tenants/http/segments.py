"""Paths whose segments may hold an encoded slash.

Servers hand on the decoded path, in which ``a%2Fb`` has become two segments. `as_sent` goes back to the raw path and decodes all of
it but what would change its structure; the path converter `segment` then decodes that inside each segment. Without a raw path
(Django's test client) only the difference between ``/`` and ``%2F`` is lost.
"""

from __future__ import annotations

from urllib.parse import quote, unquote, unquote_to_bytes

PREFIXES = ("/api/", "/admin/", "/lookup/")


def as_sent(raw_path: bytes) -> str:
    return "/".join(_inner(unquote_to_bytes(segment).decode("utf-8", "replace")) for segment in raw_path.split(b"/"))


def from_decoded(path: str) -> str:
    return "/".join(_inner(segment) for segment in path.split("/"))


def _inner(segment: str) -> str:
    return segment.replace("%", "%25").replace("/", "%2F")


class SegmentConverter:
    """One segment; the view gets it decoded."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        return unquote(value)

    def to_url(self, value: str) -> str:
        return quote(value, safe="")
