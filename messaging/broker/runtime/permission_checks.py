"""Closes producers and consumers whose permission ends.

`admit` checks and registers a session in one turn of the loop, so that no change can come between: an earlier change is seen by
the check, and a later one finds the session registered. `changed` queues the sessions that a change may affect. They are checked
again, some per turn, so that a large change delays nobody; `wait_until_checked` returns when all of them have been checked. A
session whose check raises, which is a bug of ours, is refused, and the others are checked all the same.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

import structlog

from messaging.background import ONE_OFF, BackgroundLoops
from messaging.broker.core.clients.open_sessions import OpenSession, OpenSessions
from messaging.broker.core.control.view import ControlView
from messaging.errors import AuthenticationFailed, MagnetarError, NotAuthorized, NotFound, NotReady
from messaging.identity import SUPERUSER_KEY_ID
from messaging.permissions.decision import require

log = structlog.get_logger("broker.permissions")

CHECKS_A_TURN = 200  # about 2 ms of the loop
ENDED_CHECKS = 10  # what ending a session counts for: a consumer of Key_Shared takes half a millisecond


class PermissionChecks:
    def __init__(self, view: ControlView, background: BackgroundLoops) -> None:
        self._view = view
        self._background = background
        self._open = OpenSessions(lambda: view)
        self._due: deque[OpenSession] = deque()
        self._all_checked = asyncio.Event()
        self._all_checked.set()
        self.ended = 0  # since the start

    def admit(self, session: OpenSession) -> None:
        """Call it when a topic attaches the session in the same turn, with nothing left to await. Raises `NotAuthorized`,
        `AuthenticationFailed` if the key was revoked meanwhile, `NotFound` if the namespace was deleted, and `NotReady` if
        that could not be found out."""
        refusal = self.refusal_of(session)
        if refusal is not None:
            raise refusal
        self._open.add(session)

    def changed(self, changed: Iterable[tuple[str, str]]) -> None:
        """These entities of the view changed."""
        touched = {id(session): session for change in changed for session in self._touched(change)}
        if not touched:
            return
        self._due.extend(touched.values())
        if self._all_checked.is_set():
            self._all_checked.clear()
            self._background.spawn(self._check_again(), "check open sessions again")

    def _touched(self, change: tuple[str, str]) -> list[OpenSession]:
        try:
            return self._open.touched([change])
        except Exception as error:  # what it ends is not known: all that it could end are checked
            self._failed(error)
            return self._open.under(change)

    async def wait_until_checked(self) -> None:
        await self._all_checked.wait()

    async def _check_again(self) -> None:
        checked, ended_before = 0, self.ended
        try:
            while self._due:
                left = CHECKS_A_TURN
                while left > 0 and self._due:
                    ended = self.ended
                    self._check(self._due.popleft())
                    left -= ENDED_CHECKS if self.ended > ended else 1
                    checked += 1
                await asyncio.sleep(0)
        finally:
            self._all_checked.set()
        log.info("permissions.rechecked", sessions=checked, ended=self.ended - ended_before)

    def _check(self, session: OpenSession) -> None:
        refusal = self.refusal_of(session)
        if refusal is None:
            return
        self.ended += 1
        try:
            session.end(refusal)
        except Exception as error:  # a bug in one session must not keep others open
            self._failed(error, session)

    def refusal_of(self, session: OpenSession) -> MagnetarError | None:
        """Why the session may not go on, or None. Never raises."""
        try:
            return self._refusal_of(session)
        except Exception as error:
            self._failed(error, session)
            return NotReady("whether this is permitted could not be found out: try again, and see the log of the broker")

    def _failed(self, error: Exception, session: OpenSession | None = None) -> None:
        about = {} if session is None else {"role": session.principal.role, "topic": session.resource.topic}
        self._background.register(ONE_OFF).failed(error, **about)

    def _refusal_of(self, session: OpenSession) -> MagnetarError | None:
        view, principal, resource = self._view, session.principal, session.resource
        revoked = view.key_revoked(principal.key_id) if principal.key_id else False
        if revoked or (revoked is None and principal.key_id != SUPERUSER_KEY_ID):
            return AuthenticationFailed("the key of this token was revoked or deleted: make a new one")
        if resource.namespace not in view.namespaces:
            return NotFound(f"namespace {resource.namespace} was deleted")
        try:
            require(view, principal, session.action, resource)
        except NotAuthorized as error:
            return error
        return None
