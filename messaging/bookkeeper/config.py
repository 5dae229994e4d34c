"""Settings of the client. Times are in seconds, sizes in bytes; every limit is finite."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from messaging.bookkeeper.core.packets import ADD_OVERHEAD_BYTES, FRAME_BYTES_MAX
from messaging.bookkeeper.errors import InvalidArgument


@dataclass(frozen=True)
class Config:
    """`frame_bytes_max` is not above that of the bookies (`nettyMaxFrameSizeBytes`).

    `bookie_bytes_max` bounds what is on its way to one bookie: one that takes nothing any more is replaced before it fills the
    memory. `ledger_bytes_max` bounds what one writer has appended and not confirmed: `writable` waits there. `racks` says which
    rack a bookie is in; with `require_racks` above 1, each entry has to be in so many. `failed_bookie_s`: so long a bookie that
    failed is chosen only where there is no other one, unless it answers when it is asked, `ask_failed_s` later, and twice as long
    after each time that it failed again. `ssl_context`: speak TLS, which the bookie has to offer (it begins in
    clear, with a request to start it); `check_hostname`: the name in its certificate, where that is not the host that it
    registered.
    """

    connect_timeout_s: float = 5.0
    request_timeout_s: float = 5.0
    speculative_read_s: float = 2.0
    metadata_timeout_s: float = 30.0
    frame_bytes_max: int = FRAME_BYTES_MAX
    bookie_bytes_max: int = 64 * 1024 * 1024
    ledger_bytes_max: int = 16 * 1024 * 1024
    reads_at_once: int = 32
    failed_bookie_s: float = 1800.0
    ask_failed_s: float = 10.0
    free_space_interval_s: float = 600.0
    reconnect_pause_s: float = 1.0
    racks: Mapping[str, str] = field(default_factory=dict)
    require_racks: int = 1
    ssl_context: ssl.SSLContext | None = None
    check_hostname: str | None = None

    def __post_init__(self) -> None:
        for name in (
            "connect_timeout_s",
            "request_timeout_s",
            "speculative_read_s",
            "metadata_timeout_s",
            "bookie_bytes_max",
            "ledger_bytes_max",
            "reads_at_once",
            "ask_failed_s",
            "free_space_interval_s",
            "reconnect_pause_s",
            "require_racks",
        ):
            if not getattr(self, name) > 0:
                raise InvalidArgument(f"{name} is {getattr(self, name)}; it has to be above 0")
        if self.frame_bytes_max < 1024:
            raise InvalidArgument(f"frame_bytes_max is {self.frame_bytes_max}; it has to be at least 1024")

    @property
    def entry_bytes_max(self) -> int:
        """Of a stored entry: header, digest and payload."""
        return self.frame_bytes_max - ADD_OVERHEAD_BYTES
