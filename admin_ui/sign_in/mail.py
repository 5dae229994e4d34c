"""Mail to people about their own account, sent behind the request: how long it takes says nothing about who has an account.

What was not sent when the process ends is lost; every page that promises mail says how to ask for it again."""

from __future__ import annotations

import threading
from collections import deque

from django.conf import settings

from messaging import logs
from workers import mail as smtp

WAITING_MAX = 500  # further mail is dropped: the limits on asking for it are far below this
_log = logs.get_logger("web")
_waiting: deque[tuple[list[str], str, str]] = deque()
_changed = threading.Condition()
_thread: threading.Thread | None = None


def is_set_up() -> bool:
    return bool(settings.MAGNETAR.smtp_url)


def send_later(to: list[str], subject: str, text: str) -> bool:
    """False where no mail can be sent; the caller shows what it would have said. Does not block."""
    global _thread
    if not is_set_up():
        return False
    with _changed:
        if len(_waiting) >= WAITING_MAX:
            _log.warning("mail-dropped", waiting=len(_waiting))
            return False
        _waiting.append((to, subject, text))
        if _thread is None:
            _thread = threading.Thread(target=_send_all, name="sign-in-mail", daemon=True)
            _thread.start()
        _changed.notify()
    return True


def _send_all() -> None:
    while True:
        with _changed:
            while not _waiting:
                _changed.wait()
            to, subject, text = _waiting.popleft()
        try:
            smtp.send(settings.MAGNETAR, to, subject, text)
        except Exception:  # what is wrong with one mail must not end the thread that sends the others
            _log.exception("mail-not-sent")
