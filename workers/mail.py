"""Mail to people at tenants. Without `smtp_url` none is sent: what it would have said is in the console all the same."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from messaging import logs
from messaging.errors import InvalidValue
from messaging.settings import Settings

log = logs.get_logger("magnetar.worker")
TIMEOUT_S = 20
FAILED = "mail failed"  # how what `send` says of that begins
NOT_SET_UP = "no mail was sent: smtp_url is not set"


def recipients(addresses: Sequence[str], most: int) -> list[str]:
    """Each once, in order of the alphabet. Raises `InvalidValue` for what is not the address of one mailbox, and beyond `most`."""
    from django.core.exceptions import ValidationError
    from django.core.validators import validate_email

    told = sorted({address.strip() for address in addresses if address.strip()})
    if len(told) > most:
        raise InvalidValue(f"{len(told)} mail addresses are too many: at most {most}")
    for address in told:
        try:
            validate_email(address)
        except ValidationError:
            raise InvalidValue(f"{address[:80]!r} is not a mail address: write each of several by itself") from None
    return told


def send(settings: Settings, to: Sequence[str], subject: str, text: str, files: Sequence[tuple[str, bytes, str]] = ()) -> str:
    """How it went, in a few words; never raises. `files`: (name, contents, media type). Blocks for up to `TIMEOUT_S` and more."""
    if not to:
        return ""
    if not settings.smtp_url:
        return NOT_SET_UP
    from django.core.mail import EmailMessage, get_connection

    where = urlsplit(settings.smtp_url)
    try:
        connection = get_connection(
            "django.core.mail.backends.smtp.EmailBackend",
            host=where.hostname or "localhost",
            port=where.port or (465 if where.scheme == "smtps" else 587),
            username=unquote(where.username or ""),
            password=unquote(where.password or ""),
            use_ssl=where.scheme == "smtps",
            use_tls=where.scheme == "smtp+starttls",
            timeout=TIMEOUT_S,
        )
        message = EmailMessage(" ".join(subject.split()), text, settings.mail_from, list(to), connection=connection)
        for name, contents, kind in files:
            message.attach(name, contents, kind)
        message.send()
    except (OSError, ValueError) as error:  # what smtplib raises, and what is raised of addresses that are none
        log.warning("mail-not-sent", why=f"{type(error).__name__}: {error}"[:500])
        return f"mail failed: {type(error).__name__}"
    return f"mailed to {len(to)}"
