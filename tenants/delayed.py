"""Pages of delayed messages, for REST and the console."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from messaging.adminrpc.delayed import DelayedList, DelayedMessage
from messaging.adminrpc.methods import DELAYED_LIST
from messaging.errors import InvalidValue
from messaging.payloads.masks import MASK, Masks
from messaging.protocol.names import TopicName
from tenants import broker

KEY_CHARACTERS_MAX = 1_000


class DelayedPage(msgspec.Struct):
    items: list[DelayedMessage]
    next: Annotated[str | None, Meta(description="`after` of the next page, which may be empty; null: the end.")]
    complete: Annotated[bool, Meta(description="false: some may be missing still, for a while after a start.")]


def list_delayed(
    topic: TopicName, key: str, after: str, limit: int, masks: Masks, *, from_ms: int = 0, until_ms: int = 1 << 62
) -> DelayedPage:
    """`after`: the `next` of the page before. Raises `InvalidValue`, `NotAuthorized` for a key that is masked, `TopicNotFound`,
    `NotReady`. The caller has checked that this may be read."""
    masks.check_filter(key=bool(key), property_name="", text=False, path=())
    if len(key) > KEY_CHARACTERS_MAX:
        raise InvalidValue(f"key has at most {KEY_CHARACTERS_MAX} characters")
    after_ms, ledger_id, entry_id = _place(after) if after else (-1, -1, -1)
    asked = DelayedList(
        topic=str(topic), key=key, from_ms=from_ms, until_ms=until_ms, after_ms=after_ms, ledger_id=ledger_id, entry_id=entry_id,
        limit=limit,
    )  # fmt: skip
    found = broker.rpc().call(DELAYED_LIST, asked)
    following = None if found.done else f"{found.next_ms}:{found.next_ledger_id}:{found.next_entry_id}"
    if masks.key:
        for message in found.messages:
            message.key = MASK if message.key else message.key
    return DelayedPage(found.messages, following, found.complete)


def _place(text: str) -> tuple[int, int, int]:
    parts = text.split(":")
    if len(parts) != 3 or not all(one.removeprefix("-").isascii() and one.removeprefix("-").isdecimal() for one in parts):
        raise InvalidValue("`after` is invalid: use the value of `next` from the previous page")
    at_ms, ledger_id, entry_id = map(int, parts) if len(text) <= 60 else (-1, -1, 1 << 32)
    if not (-1 <= at_ms < 1 << 63 and -1 <= ledger_id < 1 << 31 and -1 <= entry_id < 1 << 32):
        raise InvalidValue("`after` is invalid: use the value of `next` from the previous page")
    return at_ms, ledger_id, entry_id
