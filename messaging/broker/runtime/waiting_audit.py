"""Audit events that no worker has taken when the broker stops: a file keeps them until it starts again.

They keep their numbers and the id of the run, so that a worker goes on where it stood and writes none twice; to the audit log the
run before and the one after are one, as nothing is missing between them. The file goes before its events can be taken: a broker
that is killed then loses them, and the log says so, as after any kill.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog

from messaging.atomic_files import replace_file, take_file
from messaging.broker.runtime.audit import BrokerAudit, WaitingAudit
from messaging.json_types import decoder_of

log = structlog.get_logger("broker.audit")
FILE = "waiting-audit.json"


def keep(waiting: WaitingAudit, folder: Path) -> None:
    """Blocks on the disk. What cannot be written is lost, but for what was taken, which may be in the audit log."""
    try:
        replace_file(folder / FILE, msgspec.json.encode(waiting), durable=False)
    except OSError as error:
        log.warning(
            "audit.events_lost", events=sum(event.count for event in waiting.events if not event.sequence), error=str(error)
        )


def take_up(audit: BrokerAudit, folder: Path) -> None:
    """What an earlier run kept. Blocks on the disk. A file that cannot be read costs its events alone."""
    try:
        audit.take_up(decoder_of(WaitingAudit).decode(take_file(folder / FILE)))
    except FileNotFoundError:
        pass
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("audit.events_not_taken_up", error=str(error))
