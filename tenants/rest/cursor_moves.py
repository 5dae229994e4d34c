"""The moves of a subscription that can be undone, as our API has them."""

from __future__ import annotations

from datetime import UTC, datetime

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.errors import InvalidValue
from tenants.actions import cursor_moves
from tenants.names import subscription_of
from tenants.rest import message_shapes as shapes
from tenants.rest.base import View
from tenants.rest.namespaces import found_topic
from tenants.rest.outcome import Outcome, outcome_of_move
from tenants.rest.schema import describe, page_of


class SubscriptionMoves(View):
    @describe("The last moves of a subscription that can be undone, newest first: of 24 hours", page_of(shapes.MoveShape))
    def get(self, request: Request, subscription: str, **parts: str) -> Response:
        topic, _ = found_topic(parts)
        moves = cursor_moves.recorded_moves(self.actor(), topic, subscription_of(subscription), datetime.now(UTC))
        return Response({"items": [_shown(move) for move in moves], "next": None})


class SubscriptionUndo(View):
    @describe("Put a subscription back where it stood before a move; one that was deleted is created again", Outcome, dry_run=True)
    def post(self, request: Request, subscription: str, move: str, **parts: str) -> Response:
        dry_run = self.dry_run()
        if not (move.isascii() and move.isdecimal() and len(move) < 19):
            raise InvalidValue(f"{move[:40]!r} is no id of a move: use one of the moves of the subscription")
        topic, _ = found_topic(parts)
        name = subscription_of(subscription)
        answer = cursor_moves.undo(self.actor(), topic, name, int(move), datetime.now(UTC), dry_run=dry_run)
        return Response(outcome_of_move(cursor_moves.UNDONE, f"{topic}/{name}", answer, dry_run=dry_run))


def _shown(move: cursor_moves.RecordedMove) -> shapes.MoveShape:
    return shapes.MoveShape(
        id=str(move.record_id),
        at=move.at.isoformat(),
        until=move.until.isoformat(),
        action=move.action,
        before={name: place.position for name, place in move.before.items()},
        left_out_entries=move.left_out,
        undoable=move.undoable,
    )
