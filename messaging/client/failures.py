"""How a connection fails: it is refused, or it is closed. Anything else is an `OSError` or `TimeoutError` of the system."""

from __future__ import annotations


class ChannelClosed(Exception):
    """The channel is over. `code` is that of the close frame, 1006 if there was none."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the connection was closed ({code}{': ' + reason if reason else ''})")
        self.code = code
        self.reason = reason


class Refused(Exception):
    """The server answered the upgrade with an HTTP status. `code` is the stable code of the error, where the body has one."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
