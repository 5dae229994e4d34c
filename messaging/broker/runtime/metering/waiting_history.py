"""Points of history that no worker has taken when the broker stops: a file keeps them until it starts again.

A batch that was sent keeps its number, so that whoever stored it already does not store it twice. The file goes before its points
can be taken: a broker that is killed then loses them, and says of no time what it does not know.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog

from messaging.atomic_files import replace_file, take_file
from messaging.broker.runtime.metering.history_buffer import HistoryBuffer, WaitingHistory
from messaging.json_types import decoder_of

log = structlog.get_logger("broker.metering")
FILE = "waiting-history.json"


def keep(waiting: WaitingHistory, folder: Path) -> None:
    """Blocks on the disk. What cannot be written is unknown later."""
    try:
        replace_file(folder / FILE, msgspec.json.encode(waiting), durable=False)
    except OSError as error:
        log.warning("history.not_kept", points=len(waiting.points), error=str(error))


def take_up(buffer: HistoryBuffer, folder: Path) -> None:
    """What an earlier run kept. Blocks on the disk. A file that cannot be read costs its points alone."""
    try:
        buffer.take_up(decoder_of(WaitingHistory).decode(take_file(folder / FILE)))
    except FileNotFoundError:
        pass
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("history.not_taken_up", error=str(error))
