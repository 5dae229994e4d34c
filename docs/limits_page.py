"""`docs/limits.md`, from the table in messaging/limits/."""

from __future__ import annotations

from collections.abc import Iterator

from messaging.limits import binary, metadata, rest, websocket
from messaging.limits.model import Limit

_HEAD = "| field | limit | why |\n| --- | --- | --- |\n"


def page(note: str) -> str:
    text = note + (
        "# Limits\n\n"
        "What a client may put into each field. A request over a limit is refused whole with an error that names the field, its "
        "size and the limit; nothing of it is done. Sizes of texts are in bytes of UTF-8.\n\n"
        "A number without a row may be any of its type, a flag either value, an enumeration one of its names; "
        "an object is bounded by its own fields.\n\n"
    )
    by_field = {f"*.{name}": row for name, row in binary.BY_FIELD.items()}
    for title, words, rows in _sections(by_field):
        text += f"## {title}\n\n{words}\n\n{_HEAD}"
        text += "".join(f"| `{name}` | {_numbers(row)} | {row.why} |\n" for name, row in rows.items()) + "\n"
    return text.rstrip("\n") + "\n"


def _sections(by_field: dict[str, Limit]) -> Iterator[tuple[str, str, dict[str, Limit]]]:
    yield (
        "Binary protocol",
        "A request over a limit gets its error as the answer, a SEND a SEND_ERROR of `NotAllowedError`. A command that has no "
        "answer ends the connection.",
        {**binary.BINARY, **by_field},
    )
    yield (
        "Messages",
        "The broker stores messages unopened, so that all their fields together are bounded by `message_bytes_max` and 10 KiB of "
        "metadata. Where it opens one, for WebSocket consumers and for peeking, these are checked first.",
        metadata.METADATA,
    )
    yield (
        "WebSocket",
        "A message over a limit gets a `send-error`; any other frame closes the connection with 1007; a query parameter refuses "
        "the upgrade with 400.",
        websocket.WEBSOCKET,
    )
    yield "REST: `/api/v1`", f"400 with the reason; 413 for a body of more than {rest.BODY_BYTES_MAX} bytes.", rest.API
    yield "REST: `/admin/v2`", "400 or, where Pulsar does so, 412 with the reason.", rest.PULSAR
    yield "Admin RPC", "Between our own processes: 400 with the reason.", rest.RPC


def _numbers(row: Limit) -> str:
    parts = []
    if row.count_max is not None:
        parts.append(f"at most {row.count_max:,} elements")
    if row.bytes_max is not None:
        parts.append(f"at most {row.bytes_max:,} bytes" + (" each" if row.count_max is not None else ""))
    if row.total_bytes_max is not None:
        parts.append(f"{row.total_bytes_max:,} bytes in all")
    if row.minimum is not None and row.maximum is not None:
        parts.append(f"{row.minimum:,} to {row.maximum:,}")
    elif row.minimum is not None:
        parts.append(f"at least {row.minimum:,}")
    if row.setting:
        parts.append(f"the setting `{row.setting}`")
    return ", ".join(parts)
