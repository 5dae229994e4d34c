"""The kinds of problems, the most urgent first, and how each is marked."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """In the order in which problems are listed: first what stops messages, then what will, then what costs time."""

    DISK_LOW = "disk_low"
    PROCESS_DOWN = "process_down"
    UNSERVED = "unserved"  # no broker of a fleet may serve the namespace
    BLOCKED = "blocked"  # consumers are connected and take nothing
    PRODUCERS_HELD = "producers_held"  # by the backlog quota
    DISPATCH_FAILED = "dispatch_failed"
    SCHEMA_REFUSED = "schema_refused"
    DEAD_LETTERS_STUCK = "dead_letters_stuck"
    NO_CONSUMER = "no_consumer"  # and there is a backlog
    FEWER_COPIES = "fewer_copies"  # than messages should have, on bookies
    DELAYED_LATE = "delayed_late"
    ALERT = "alert"
    NOTICES_UNSENT = "notices_unsent"  # what alerts say does not arrive
    TASK_FAILED = "task_failed"
    DEAD_LETTERS = "dead_letters"  # more and more of them
    UNACKNOWLEDGED = "unacknowledged"  # all was sent, and nothing has moved for long
    FALLING_BEHIND = "falling_behind"
    PUBLISH_THROTTLED = "publish_throttled"
    DISPATCH_THROTTLED = "dispatch_throttled"
    UNREAD = "unread"  # published, and kept for nobody


class Mark(NamedTuple):
    """`text` in lists; `serious`: messages stand still, or soon will; `meaning` for whoever points at it."""

    text: str
    serious: bool
    meaning: str


MARKS: dict[Kind, Mark] = {
    Kind.DISK_LOW: Mark("DISK NEARLY FULL", True, "When the disk is full, publishing is refused."),
    Kind.PROCESS_DOWN: Mark("PROCESS DOWN", True, "A process of the platform does not run, or cannot do its work."),
    Kind.UNSERVED: Mark("NOT SERVED", True, "No broker that runs may serve this namespace: clients of its topics wait."),
    Kind.BLOCKED: Mark(
        "BLOCKED", True, "Its consumers hold all that they asked for, or as much as they may, and have taken no more for a while."
    ),
    Kind.PRODUCERS_HELD: Mark("PRODUCERS HELD", True, "The backlog quota is used up, and producers are refused."),
    Kind.DISPATCH_FAILED: Mark("SENDING FAILS", True, "The broker cannot send messages, and tries again."),
    Kind.SCHEMA_REFUSED: Mark("SCHEMA REFUSED", True, "A client was refused because of its schema."),
    Kind.DEAD_LETTERS_STUCK: Mark("DEAD LETTERS WAIT", True, "Messages cannot be moved to the dead-letter topic."),
    Kind.NO_CONSUMER: Mark(
        "NO CONSUMER",
        True,
        "No consumer is connected to this subscription. Its backlog stays until a consumer acknowledges it or it expires.",
    ),
    Kind.FEWER_COPIES: Mark("FEWER COPIES", False, "What is published to some topics is stored on fewer bookies than wanted."),
    Kind.DELAYED_LATE: Mark("DELAYED LATE", False, "Delayed messages are due and were not sent."),
    Kind.ALERT: Mark("ALERT", False, "An alert rule fires."),
    Kind.NOTICES_UNSENT: Mark("NOTICES UNSENT", False, "What alerts say does not arrive where it is to be sent."),
    Kind.TASK_FAILED: Mark("TASK FAILED", False, "A task of the workers failed."),
    Kind.DEAD_LETTERS: Mark("DEAD LETTERS GROW", False, "Messages were dead-lettered in the last ten minutes."),
    Kind.UNACKNOWLEDGED: Mark(
        "NOT ACKNOWLEDGED",
        False,
        "Its consumers have got, acknowledged or asked for nothing for 10 minutes, or reject the same messages again and again.",
    ),
    Kind.FALLING_BEHIND: Mark(
        "FALLING BEHIND",
        False,
        "Consumers are connected, but the backlog grew over the last minute: messages arrive faster than they are acknowledged.",
    ),
    Kind.PUBLISH_THROTTLED: Mark("PUBLISHING THROTTLED", False, "Producers publish as much as a rate limit allows."),
    Kind.DISPATCH_THROTTLED: Mark("DELIVERY THROTTLED", False, "Messages are sent as fast as a rate limit allows."),
    Kind.UNREAD: Mark("NO SUBSCRIPTION", False, "What is published to it is kept neither by a subscription nor by retention."),
}
ORDER: dict[str, int] = {kind: place for place, kind in enumerate(Kind)}


def worst(kinds: list[str]) -> str:
    """The most urgent of them; "" of none. A kind that this release does not know comes last."""
    return min(kinds, key=lambda kind: ORDER.get(kind, len(ORDER)), default="")
