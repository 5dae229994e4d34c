"""The queue in files, for several readers at once: Kombu's transport, but every file is whole from the moment that it can be seen.

Kombu creates a file and then writes it. A reader in between finds nothing in it, which ends the worker."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps

from messaging.atomic_files import replace_file


class Channel(filesystem.Channel):
    def _put(self, queue: Any, payload: Any, **kwargs: Any) -> None:  # type: ignore[override]  # its parent renames it, too
        """Names sort by the time of sending and end with the queue, as `_get` has it."""
        name = f"{round(time.monotonic() * 1000)}_{uuid.uuid4()}.{queue}.msg"
        content: bytes = dumps(payload).encode()  # type: ignore[no-untyped-call]  # Kombu has no types
        try:
            replace_file(Path(self.data_folder_out) / name, content, durable=False)
        except OSError as error:
            raise ChannelError(f"the queue's file cannot be written: {error}") from error

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        self._create_table(self._exchange_file(exchange))  # type: ignore[no-untyped-call]  # Kombu has no types
        super()._queue_bind(exchange, routing_key, pattern, queue)  # type: ignore[no-untyped-call]  # Kombu has no types

    def _create_table(self, path: Path) -> None:
        """Without any queue yet, unless it is there."""
        if path.exists():
            return
        whole = path.with_name(f"{uuid.uuid4()}.new")
        whole.write_bytes(b"[]")
        try:
            os.link(whole, path)
        except FileExistsError:
            pass  # somebody else was faster
        finally:
            whole.unlink()


class Transport(filesystem.Transport):
    Channel = Channel
