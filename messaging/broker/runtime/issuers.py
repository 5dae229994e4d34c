"""Issuers of other organisations that this broker trusts: what the feed says of them, ready to verify tokens."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from messaging.broker.core.control.view import ControlView
from messaging.errors import MagnetarError
from messaging.identity.issuers import TrustedIssuer, claimed_issuer, issued_principal
from messaging.permissions.model import Principal

log = structlog.get_logger("broker.access")


class TrustedIssuers:
    def __init__(self, view: ControlView) -> None:
        self._view = view
        self._by_name: dict[str, TrustedIssuer] = {}

    def principal(self, token: str, now_ms: int) -> Principal | None:
        """Of a token by one of them; None for any other. Raises `AuthenticationFailed` for one that is not valid."""
        if not self._by_name:
            return None
        claimed = claimed_issuer(token)
        asked = [trusted for trusted in self._by_name.values() if trusted.issuer == claimed] if claimed else []
        return issued_principal(token, asked, now_ms) if asked else None

    def load(self) -> None:
        """What the view has after the start."""
        self.follow(("issuer", name) for name in self._view.issuers)

    def follow(self, changed: Iterable[tuple[str, str]]) -> set[str]:
        """These entities (kind, key) of the view changed. Returns the names of issuers among them, also through their tenants."""
        touched: set[str] = set()
        for kind, key in changed:
            if kind == "issuer":
                touched.add(key)
            elif kind == "tenant":
                touched |= {name for name in (*self._view.issuers, *self._by_name) if name.partition("/")[0] == key}
        for name in touched:
            trusted = self._trusted(name)
            if trusted is None:
                self._by_name.pop(name, None)
            else:
                self._by_name[name] = trusted
        return touched

    def _trusted(self, name: str) -> TrustedIssuer | None:
        state = self._view.issuers.get(name)
        if state is None or state.get("tenant_uid", "") != self._view.tenant_uid(name.partition("/")[0]):
            return None  # of a former tenant of that name
        try:
            return TrustedIssuer.from_state(name, state)
        except (MagnetarError, ValueError) as error:
            log.error("issuer.unusable", issuer=name, error=str(error))
            return None

    def still_trusts(self, principal: Principal) -> bool:
        """True for whoever came otherwise."""
        name, space, _ = principal.issuer_key.partition(" ")
        if not space:
            return True
        trusted = self._by_name.get(name)
        return trusted is not None and trusted.still_trusts(principal)
