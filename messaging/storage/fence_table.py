"""Which fences are the newest, as one opening of a ledger store knows it, and which ledgers belong to which scope."""

from __future__ import annotations

from messaging.storage.ledger_store import WHOLE, Fence, Fenced


class FenceTable:
    """`epoch`: of this opening. Older fences were given out before it. 0 for a store of several processes,
    which keeps the newest fence of each scope: how often they open it says nothing about the scope of one of them."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._newest: dict[str, int] = {}  # by scope

    def admit(self, fence: Fence) -> bool:
        """Whether it is new. Raises `Fenced` where a newer one is known."""
        newest = self._newest.get(fence.scope, self._epoch - 1)
        if fence.epoch < newest:
            raise self.refusal(fence)
        self._newest[fence.scope] = fence.epoch
        return fence.epoch > newest

    def check(self, fence: Fence) -> None:
        """Raises `Fenced` unless it is the newest of its scope."""
        if self._newest.get(fence.scope) != fence.epoch:
            raise self.refusal(fence)

    def refusal(self, fence: Fence) -> Fenced:
        newest = self._newest.get(fence.scope)
        return Fenced(f"epoch {fence.epoch} does not own {fence.scope}; {'nobody' if newest is None else f'epoch {newest}'} does")


def scope_of(properties: dict[str, str]) -> str:
    """Of a ledger with these properties. Those of the whole range say nothing, as all did before there were ranges."""
    return properties.get("scope", WHOLE)


def with_scope(properties: dict[str, str], scope: str) -> dict[str, str]:
    return properties if scope == WHOLE else {**properties, "scope": scope}
