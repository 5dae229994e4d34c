"""Messages as a file: JSON lines or CSV. So much and no more: who wants all of a topic reads it with a client."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from messaging.payloads.paths import Path, values_at
from messaging.times import time_text
from tenants.browsing.pages import MessageRow, MessagesPage, messages_read
from tenants.browsing.query import LIMIT_MAX, MessageQuery, message_place
from tenants.text_files import incomplete_line, plain_cell

MESSAGES_MAX = 1_000
BYTES_MAX = 8 << 20
SECONDS_MAX = 10.0
FACTS = (
    "message_id",
    "publish_time_ms",
    "publish_time_utc",
    "key",
    "producer",
    "size_bytes",
    "format",
    "payload_cut",
    "masked",
    "problem",
)


class Export(NamedTuple):
    """`complete`: no message is missing that was asked for; else the last line of `content` says what is."""

    content: bytes
    messages: int
    complete: bool
    read: dict[str, Any]  # `pages.messages_read` of all of them


def export_messages(
    ask: Callable[[MessageQuery], MessagesPage], query: MessageQuery, *, as_csv: bool, columns: Sequence[tuple[str, Path]]
) -> Export:
    """`ask` answers a page. Blocks; raises what `ask` does."""
    out, count, damaged, ends_s = io.StringIO(newline=""), 0, 0, time.monotonic() + SECONDS_MAX
    ids: list[str] = []
    writer = csv.writer(out)
    if as_csv:
        writer.writerow([*FACTS, "properties", *(plain_cell(title) for title, _ in columns), "payload"])
    page = ask(query._replace(limit=LIMIT_MAX))
    while True:
        for row in page.items:
            if as_csv:
                writer.writerow(_cells(row, columns))
            else:
                out.write(msgspec.json.encode(row).decode() + "\n")
        count, damaged = count + len(page.items), damaged + page.unreadable
        ids += [row.message_id for row in page.items]
        if page.next is None or count >= MESSAGES_MAX or out.tell() >= BYTES_MAX or time.monotonic() >= ends_s:
            if missing := _missing(count, page.next, damaged):
                out.write(incomplete_line(missing, as_csv=as_csv))
            return Export(out.getvalue().encode("utf-8", "replace"), count, not missing, messages_read(ids))
        page = ask(query._replace(limit=min(LIMIT_MAX, MESSAGES_MAX - count), place=message_place(page.next), going_on=True))


def _missing(messages: int, following: str | None, damaged: int) -> str:
    """What the file lacks, or ""."""
    parts = []
    if following is not None:
        parts.append(f"these are the first {messages} messages; ask again with after={following} for those that follow")
    if damaged:
        parts.append(f"{damaged} entries are damaged and cannot be read")
    return "; ".join(parts)


def _cells(row: MessageRow, columns: Sequence[tuple[str, Path]]) -> list[str]:
    found = [", ".join(map(_text, list(values_at(row.value, path))[:5])) if row.decoded else "" for _, path in columns]
    payload = _text(row.value) if row.decoded else row.text or row.payload_base64
    named = {"publish_time_utc": time_text(row.publish_time_ms)}
    facts = [named.get(name) or _text(getattr(row, name)) for name in FACTS]
    return [plain_cell(cell) for cell in (*facts, _text(row.properties), *found, payload)]


def _text(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
