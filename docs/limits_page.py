"""Generates `docs/limits.md` from the limits of fields, which stand beside the fields or in messaging/limits/."""

from __future__ import annotations

from collections.abc import Iterator

from docs.web_process import load_routes
from messaging.adminrpc.methods import request_structs
from messaging.broker.http.websocket.frames import FRAMES
from messaging.broker.http.websocket.parameters import PARAMETERS
from messaging.limits import binary, metadata, rest, websocket
from messaging.limits.model import Limit
from messaging.limits.structs import limits_of, rows_of
from tenants.pulsar import bodies

_HEAD = "| field | limit | why |\n| --- | --- | --- |\n"


def page(note: str) -> str:
    text = note + (
        "# Limits\n\n"
        "Limits of every field that a client sends. A request over a limit is refused as a whole, with an error that names the "
        "field, "
        "its size and the limit. Sizes of texts are in bytes of UTF-8.\n\n"
        "Numbers, flags and enumerations without a row may have any value of their type. Objects are limited by their own "
        "fields.\n\n"
    )
    by_field = {f"*.{name}": row for name, row in binary.BY_FIELD.items()}
    for title, words, rows in _sections(by_field):
        text += f"## {title}\n\n{words}\n\n{_HEAD}"
        text += "".join(f"| `{name}` | {_numbers(row)} | {row.why} |\n" for name, row in rows.items()) + "\n"
    return text.rstrip("\n") + "\n"


def _sections(by_field: dict[str, Limit]) -> Iterator[tuple[str, str, dict[str, Limit]]]:
    yield (
        "Binary protocol",
        "A request over a limit gets an error response, and a SEND gets a SEND_ERROR with `NotAllowedError`. A command that has "
        "no response closes the connection.",
        {**binary.BINARY, **by_field},
    )
    yield (
        "Messages",
        "The broker stores messages without parsing them, so all their fields together are limited by `message_bytes_max` and "
        "10 KiB of metadata. Where it parses a message, for WebSocket consumers and for peeking, it checks these limits first.",
        metadata.METADATA,
    )
    yield (
        "WebSocket",
        "A message over a limit gets a `send-error`. Any other frame over a limit closes the connection with 1007. A query "
        "parameter over a limit refuses the upgrade with 400.",
        rows_of([*FRAMES, *PARAMETERS]) | {"MessageId.batch_index": websocket.BATCH_INDEX},
    )
    said = f"400 with the reason, or 413 for a body of more than {rest.BODY_BYTES_MAX} bytes. "
    said += f"A body has at most {rest.BODY_VALUES_MAX:,} values in {rest.BODY_DEPTH_MAX} levels of objects and lists."
    yield "REST: `/api/v1`", said, _of_our_api()
    of_pulsar = {f"body.{bare.name}": bare.limit for bare in bodies.BARE} | rows_of(bodies.OBJECTS)
    yield "REST: `/admin/v2`", "400 with the reason, or 412 where Pulsar returns it.", of_pulsar
    yield "Admin RPC", "Used between the platform's own processes: 400 with the reason.", _of_admin_rpc()


def _of_admin_rpc() -> dict[str, Limit]:
    """By field: a name means the same in every request."""
    return dict(sorted({name: limit for struct in request_structs() for name, limit in limits_of(struct).items()}.items()))


def _of_our_api() -> dict[str, Limit]:
    load_routes()
    from tenants.rest.document import request_bodies

    return rows_of(request_bodies())


def _numbers(row: Limit) -> str:
    parts = []
    if row.count_max is not None:
        parts.append(f"at most {row.count_max:,} elements")
    if row.bytes_max is not None:
        parts.append(f"at most {row.bytes_max:,} bytes" + (" each" if row.count_max is not None else ""))
    if row.total_bytes_max is not None:
        parts.append(f"{row.total_bytes_max:,} bytes in total")
    if row.minimum is not None and row.maximum is not None:
        parts.append(f"{row.minimum:,} to {row.maximum:,}")
    elif row.minimum is not None:
        parts.append(f"at least {row.minimum:,}")
    if row.setting:
        parts.append(f"the setting `{row.setting}`")
    return ", ".join(parts)
