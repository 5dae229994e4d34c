"""A real SMTP server on a free port that keeps what it was sent."""

from __future__ import annotations

import email
import email.policy
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller

from tests.support.waiting import eventually_sync


class MailServer:
    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []
        self.url = ""

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        self.messages.append(message)
        return "250 OK"

    def next(self, number: int = 1) -> EmailMessage:
        """The `number`-th message, once it is there."""
        eventually_sync(lambda: len(self.messages) >= number)
        return self.messages[number - 1]


def link_in(message: EmailMessage) -> str:
    """The path of the first link in a mail."""
    match = re.search(r"https?://[^/\s]+(/\S+)", message.get_content())
    assert match, message.get_content()
    return match[1]


@contextmanager
def mail_server() -> Iterator[MailServer]:
    server = MailServer()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(server, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        server.url = f"smtp://127.0.0.1:{port}"
        yield server
    finally:
        controller.stop()
