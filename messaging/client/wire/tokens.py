"""When a token ends, as far as it says so. Pure. Nothing is verified here: that is the broker's work."""

from __future__ import annotations

import base64
import json

MARGIN = 0.1  # of the time that is left: a token is renewed so long before its end,
MARGIN_S_MAX = 60.0  # or this long
LEFT_S_MIN = 0.01  # what ends so soon is not renewed any more: the broker asks


def expires_s(token: str) -> float | None:
    """Seconds since 1970. None: it is no JWT, or does not end."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError):
        return None


def renewal_delay_s(token: str, now_s: float) -> float | None:
    """In how long a new token is to be asked for. None: never, or it is over and the broker will say so."""
    until_s = expires_s(token)
    if until_s is None or until_s - now_s < LEFT_S_MIN:
        return None
    left_s = until_s - now_s
    return left_s - min(MARGIN_S_MAX, left_s * MARGIN)
