"""The order in which upkeep goes round the topics, page by page. Pure.

A round that was broken off is continued where it ended, not begun again, so that no topic is always behind the point at which
rounds end. Topics that were passed over because they take long come first in the next round.
"""

from __future__ import annotations

from typing import NamedTuple

PASSED_OVER_MAX = 1_000


class PageRequest(NamedTuple):
    """A page of names, in order, beginning after `after`. `begun_after`: where its round began; `wrapped`: it has come past the
    last name, and goes on to there from the first one."""

    after: str
    begun_after: str = ""
    wrapped: bool = False

    def token(self) -> str:
        return "\n".join((self.after, self.begun_after, "1" if self.wrapped else ""))

    @classmethod
    def of(cls, token: str) -> PageRequest:
        after, _, rest = token.partition("\n")
        begun_after, _, wrapped = rest.partition("\n")
        return cls(after, begun_after, bool(wrapped))


class MaintenanceRound:
    def __init__(self) -> None:
        self._reached = ""  # names up to this one were given out, and their page was worked off
        self._passed_over: dict[str, None] = {}

    def begin(self) -> tuple[list[str], PageRequest]:
        """The topics that come first, and the first page."""
        first = list(self._passed_over)
        self._passed_over.clear()
        return first, PageRequest(self._reached, self._reached)

    def page(self, request: PageRequest, names: list[str], limit: int) -> tuple[list[str], PageRequest | None]:
        """`names`: up to `limit` of those that were asked for. Returns those that belong to the round, and what to ask for next;
        None at the end of the round."""
        within = [name for name in names if name <= request.begun_after] if request.wrapped else names
        following: PageRequest | None = None
        if len(within) == limit:
            following = request._replace(after=within[-1])
        elif not request.wrapped and request.begun_after:
            following = PageRequest("", request.begun_after, wrapped=True)
        self._reached = request.after if following is not None else ""
        return within, following

    def pass_over(self, name: str) -> None:
        if len(self._passed_over) < PASSED_OVER_MAX:
            self._passed_over[name] = None
