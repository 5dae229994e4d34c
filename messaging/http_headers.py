"""Encodes texts of users as HTTP headers; the only place that does. Pure.

A header holds visible characters of ASCII and blanks; a line break in it would begin another header, or another answer. Values are
percent-encoded where they hold anything else. A name cannot be; and common clients refuse a whole response for too many headers or
too long ones. Fields that cannot be sent are left out, the last ones first, and their number is sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

FIELD_BYTES_MAX = 8 << 10  # of one field; Netty's clients, Pulsar's among them, take this much
FIELDS_BYTES_MAX = 16 << 10  # of all; half of what most servers and proxies take
FIELDS_MAX = 64  # Python's client takes a hundred, with those that servers add
OMITTED = "X-Magnetar-Omitted-Headers"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNSAID = re.compile(r"[^ -~]+|^ +| +$")


def header_value(text: str) -> str:
    """`text` as one line that any header can have; unchanged where it is one."""
    return _UNSAID.sub(lambda match: quote(match[0], safe=""), text)


def header_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """Those of `fields` that can be said, in their order."""
    kept: dict[str, str] = {}
    total = 0
    for name, text in fields.items():
        if len(text) > FIELD_BYTES_MAX or len(kept) == FIELDS_MAX or not _NAME.fullmatch(name):
            continue
        value = header_value(text)
        size = len(name) + len(value)
        if size <= FIELD_BYTES_MAX and total + size <= FIELDS_BYTES_MAX:
            kept[name] = value
            total += size
    if len(kept) < len(fields):
        kept[OMITTED] = str(len(fields) - len(kept))
    return kept
