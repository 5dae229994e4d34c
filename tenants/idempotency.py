"""Idempotency keys: the answer to a change is kept for a day, and is the answer to the same request with the same key.

What failed before it changed anything is not kept, and may be tried again. Keys belong to whoever sends them.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from messaging.errors import Conflict, InvalidValue, QuotaExceeded
from messaging.permissions.model import Principal
from tenants.models import IdempotencyKey

KEPT = timedelta(hours=24)
OF_OWNER_MAX = 10_000  # keys of a day; with the answers at most 160 MiB
ANSWER_BYTES_MAX = 16 << 10
FORGOTTEN_AT_ONCE = 100
_KEY = re.compile(r"[!-~]{1,255}")


def begin(request: HttpRequest, principal: Principal, key: str) -> IdempotencyKey | HttpResponse:
    """The row of a request that is carried out now, or the answer that it had. Raises `InvalidValue` for what is no key, or one of
    another request, `Conflict` while the first request runs, and where its answer is not kept, `QuotaExceeded`."""
    if not _KEY.fullmatch(key):
        raise InvalidValue("Idempotency-Key has 1 to 255 printable ASCII characters without spaces")
    if principal.anonymous:
        raise InvalidValue("an Idempotency-Key belongs to somebody: send a token as well, or leave it out")
    subject, owner, now = _subject(principal), principal.tenant[:600], timezone.now()
    forget(now, FORGOTTEN_AT_ONCE)
    row = IdempotencyKey.objects.filter(subject=subject, key=key).first()
    if row is None:
        if IdempotencyKey.objects.filter(owner=owner).count() >= OF_OWNER_MAX:
            raise QuotaExceeded(f"{OF_OWNER_MAX} idempotency keys were used within 24 hours: send requests without one")
        digest = _digest(request)
        try:
            with transaction.atomic():
                return IdempotencyKey.objects.create(subject=subject, owner=owner, key=key, digest=digest, created_at=now)
        except IntegrityError:  # the same request a moment ago
            row = IdempotencyKey.objects.get(subject=subject, key=key)
    return _answer_of(row, request)


def _answer_of(row: IdempotencyKey, request: HttpRequest) -> HttpResponse:
    if row.digest != _digest(request):
        raise InvalidValue("this Idempotency-Key was sent with another request: use a new key for each change")
    if row.status is None:
        raise Conflict("the first request with this Idempotency-Key has not ended: look at what became of it")
    if row.content is None:
        raise Conflict("the first request with this Idempotency-Key was carried out; its answer is not kept (large, or a secret)")
    answer = HttpResponse(bytes(row.content), status=row.status, content_type=row.content_type or None)
    answer.headers["Idempotent-Replayed"] = "true"
    return answer


def finish(row: IdempotencyKey, response: HttpResponse, *, carried_out: bool) -> None:
    """Keeps the answer. `carried_out`: something was changed, even if the answer says that not all went well."""
    if response.status_code >= 400 and not carried_out:
        row.delete()
        return
    content = bytes(response.content)
    kept = len(content) <= ANSWER_BYTES_MAX and "no-store" not in response.headers.get("Cache-Control", "")
    row.status, row.content = response.status_code, content if kept else None
    row.content_type = response.headers.get("Content-Type", "")[:100]
    row.save(update_fields=["status", "content", "content_type"])


def forget(now: datetime, most: int) -> int:
    """Removes at most so many that are older than a day. Returns how many."""
    old = IdempotencyKey.objects.filter(created_at__lt=now - KEPT).order_by("created_at").values_list("pk", flat=True)[:most]
    keys = list(old)
    return IdempotencyKey.objects.filter(pk__in=keys).delete()[0] if keys else 0


def _subject(principal: Principal) -> str:
    return hashlib.sha256(f"{principal.role}\n{principal.key_id}".encode()).hexdigest()


def _digest(request: HttpRequest) -> str:
    asked = hashlib.sha256(f"{request.method} {request.get_full_path()}\n".encode("utf-8", "surrogatepass"))
    asked.update(request.body)
    return asked.hexdigest()
