"""The live topic table as data: a snapshot, the changes between two of them, and how a reader applies those.

A *state* is what one answer of ``namespaces.live`` said. It is identified by (`epoch`, `sequence`): the boot epoch of the broker
and the number of its snapshot. An *update* carries the (epoch, sequence) that it starts from, so that a reader that missed one
notices and asks for a fresh snapshot instead of showing a mixture. The rule that the tests hold: state plus updates equals fresh
state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from messaging.adminrpc.topics import NamespaceLive, TopicLive

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LiveState:
    """Immutable. `rows`: full topic name -> the fields of `TopicLive` without the name. `at_ms` is the broker's clock. `totals`:
    the fields of `LiveTotals`, None where the rows were asked for by name. `more`: the namespace has topics after these."""

    epoch: int
    sequence: int
    at_ms: int
    rows: dict[str, Row] = field(default_factory=dict)
    totals: Row | None = None
    more: bool = False

    @classmethod
    def from_answer(cls, answer: NamespaceLive) -> LiveState:
        rows = {topic.topic: _row(topic) for topic in answer.topics}
        totals = None if answer.totals is None else msgspec.to_builtins(answer.totals)
        return cls(answer.boot_epoch, answer.sequence, answer.at_ms, rows, totals, bool(answer.next))

    def follows(self, earlier: LiveState) -> bool:
        """Whether an update may lead from `earlier` to here: the same boot of the broker, and later in it."""
        return self.epoch == earlier.epoch and self.sequence >= earlier.sequence


def _row(topic: TopicLive) -> Row:
    row: Row = msgspec.to_builtins(topic)
    del row["topic"]
    return row


def _head(state: LiveState) -> dict[str, Any]:
    return {
        "epoch": state.epoch,
        "sequence": state.sequence,
        "at_ms": state.at_ms,
        "totals": state.totals,
        "more": state.more,
    }


def snapshot_message(state: LiveState) -> dict[str, Any]:
    return {"type": "snapshot", **_head(state), "rows": state.rows}


def update_message(base: LiveState, state: LiveState) -> dict[str, Any]:
    """The change from `base` to `state`: whole rows that differ, and the names that went away. Needs ``state.follows(base)``."""
    changed = {name: row for name, row in state.rows.items() if base.rows.get(name) != row}
    removed = [name for name in base.rows if name not in state.rows]
    return {"type": "update", **_head(state), "base": base.sequence, "changed": changed, "removed": removed}


def message_between(base: LiveState | None, state: LiveState) -> dict[str, Any]:
    """What brings a reader that holds `base` (None: nothing) to `state`."""
    if base is None or not state.follows(base):
        return snapshot_message(state)
    return update_message(base, state)


class Gap(Exception):
    """The update does not start from what the reader holds: it needs a fresh snapshot."""


def apply(state: LiveState | None, message: dict[str, Any]) -> LiveState:
    """What a reader holds after `message`. The same rule stands in static/admin_ui/js/live-state.js. Raises `Gap`."""
    if message["type"] == "snapshot":
        return _state(message, dict(message["rows"]))
    if state is None or message["epoch"] != state.epoch or message["base"] != state.sequence:
        raise Gap
    rows = {**state.rows, **message["changed"]}
    for name in message["removed"]:
        rows.pop(name, None)
    return _state(message, rows)


def _state(message: dict[str, Any], rows: dict[str, Row]) -> LiveState:
    return LiveState(message["epoch"], message["sequence"], message["at_ms"], rows, message["totals"], message["more"])
