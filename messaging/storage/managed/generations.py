"""Whether a log and its metadata belong together: each names the other's generation.

A generation is a random name. Every start, and every clean stop, gives both a new one. So one of them that was restored from an
older backup, or lost, names another, and is refused: with metadata that is older than the log, ledgers that it does not know would
be deleted as orphans.

The names are written one after the other, and a crash may come in between:

    metadata: current X, following Y      then the log: Y      then the metadata: current Y

The log matches if it has either name. What changed within a generation no name tells: after a crash, metadata may have been
restored from a backup that was taken while the broker ran. Newer ledgers than it knows are noticed by their ids; what is left is
why nothing is deleted as an orphan for a while, unless the last owner stopped cleanly.

Where several brokers share both, each has a part of what changes, and none could give them a new name: they keep the first one.
"""

from __future__ import annotations

import secrets
from typing import Protocol

import msgspec

from messaging.json_types import decoder_of
from messaging.storage.ledger_store import WHOLE, Fence, Fenced, StoreError
from messaging.storage.meta_store import MetaStore

KEY = "store/generation"  # of the range that is `WHOLE`
SHARED_KEY = "store/generation-of-all"
FIRST_LEDGER_ID = 1  # is free as long as there never was a ledger
ACCEPTED = "accepted"  # of a log whose operator said that it takes the metadata there is


class GenerationConflict(StoreError):
    """Log and metadata are not of the same age."""


class NamedLog(Protocol):
    @property
    def generation(self) -> str:
        """What it was last called; empty if it never was."""

    async def name_generation(self, generation: str) -> None:
        """Durable when it returns. Raises `StoreError`."""

    async def read_generation(self) -> str:
        """As it is stored now, which another broker may have changed since this one began; so is `generation` from then on. Raises
        `StoreError`."""


class _Named(msgspec.Struct, frozen=True):
    current: str
    following: str = ""
    stopped: bool = False


def key_of(scope: str) -> str:
    """Each owned range has a log, and several may share their metadata."""
    return KEY if scope == WHOLE else f"{KEY}/{scope}"


async def match(ledgers: NamedLog, meta: MetaStore, scope: str = WHOLE) -> bool:
    """Whether both are certainly as their last owner left them: it stopped cleanly. False too for a log of an earlier release,
    which has no name. Raises `GenerationConflict`, and `StoreError` if the metadata cannot be read."""
    key = key_of(scope)
    stored = await meta.get_value(key)
    if ledgers.generation == ACCEPTED:
        return False
    if stored is None:
        if ledgers.generation:
            raise GenerationConflict(
                f"the log is of generation {ledgers.generation}, the metadata of none: it was lost or is older"
            )
        return False
    try:
        named = decoder_of(_Named).decode(stored)
    except msgspec.DecodeError as error:
        raise StoreError(f"the metadata cannot be read: its value {key} is damaged: {error}") from error
    if ledgers.generation != named.current and (not named.following or ledgers.generation != named.following):
        of_log, of_metadata = ledgers.generation or "(none)", named.current or "(none)"
        raise GenerationConflict(f"the log is of generation {of_log}, the metadata of {of_metadata}")
    return named.stopped and ledgers.generation == named.current


async def match_shared(ledgers: NamedLog, meta: MetaStore) -> None:
    """Of stores that several brokers share: the first one names them. Raises `GenerationConflict`, `StoreError`."""
    while True:
        stored = await meta.get_value(SHARED_KEY)
        if stored is not None:
            return await _join(ledgers, meta, stored.decode())
        await match(ledgers, meta)  # with one broker there was one log
        named = ledgers.generation not in ("", ACCEPTED)
        generation = ledgers.generation if named else secrets.token_hex(8)
        fence = await meta.acquire(SHARED_KEY)
        if await meta.get_value(SHARED_KEY) is not None:  # another broker named it before that, and is about to name the log
            continue
        try:
            await meta.put_value(fence, SHARED_KEY, generation.encode())
        except Fenced:  # another broker does the same
            continue
        if not named:
            await ledgers.name_generation(generation)
        return


async def _join(ledgers: NamedLog, meta: MetaStore, generation: str) -> None:
    """The metadata has its name, and the log had another one, or none, when this broker began. Raises `GenerationConflict`,
    `StoreError`."""
    if ledgers.generation == ACCEPTED:
        await ledgers.name_generation(generation)
        return
    if generation == (ledgers.generation or await ledgers.read_generation()):
        return
    if not ledgers.generation and await meta.first_free_ledger_id() == FIRST_LEDGER_ID:
        # Whoever named the metadata is about to name the log, or ended before that. It is the same name, and nothing is lost yet.
        await ledgers.name_generation(generation)
        return
    of_log = ledgers.generation or "(none)"
    raise GenerationConflict(f"the log is of generation {of_log}, the metadata of {generation}")


async def renew(ledgers: NamedLog, meta: MetaStore, fence: Fence, *, stopped: bool = False) -> None:
    """Gives both a new name. `stopped`: nothing changes in either before the next start. Raises `StoreError`; they still match
    then."""
    key, following = key_of(fence.scope), secrets.token_hex(8)
    await meta.put_value(fence, key, msgspec.json.encode(_Named(ledgers.generation, following)))
    await ledgers.name_generation(following)
    await meta.put_value(fence, key, msgspec.json.encode(_Named(following, stopped=stopped)))
