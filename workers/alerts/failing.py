"""Where notices of a tenant do not arrive: kept beside the place, until one arrives there again or the places are set anew."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec
from django.db import transaction

from messaging.json_types import converted
from workers.alerts.models import NotificationTarget

WHY_LENGTH_MAX = 300


class Failing(msgspec.Struct):
    """`why`: of the last one; `since_ms`: of the first one in a row."""

    since_ms: int
    why: str


def failing_of(target: NotificationTarget) -> Mapping[str, Failing]:
    """By channel."""
    return converted(target.failing or {}, dict[str, Failing])


def note_sent(target: NotificationTarget | None, channel: str, why: str, now: datetime) -> None:
    """`why` a notice did not arrive by this channel; "": it did. Nothing, where the places were changed since `target` was read."""
    if target is None or not (why or channel in (target.failing or {})):
        return
    same = NotificationTarget.objects.filter(
        pk=target.pk, webhook_url=target.webhook_url, topic=target.topic, mail_to=target.mail_to
    )
    with transaction.atomic():  # notices are sent at the same time
        row = same.select_for_update().first()
        if row is None:
            return
        failing = dict(failing_of(row))
        before = failing.pop(channel, None)
        if why:
            since_ms = before.since_ms if before is not None else int(now.timestamp() * 1000)
            failing[channel] = Failing(since_ms, why[:WHY_LENGTH_MAX])
        same.update(failing=msgspec.to_builtins(failing) or None)
