"""Commands of `magnetar` in this process, whose requests go to the views without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.cli.remote import contexts
from messaging.client.admin.generated import Resources
from messaging.client.admin.http import Http
from tests.tenants.world import Caller


class InProcess(Http):
    """Its requests are made by a caller."""

    def __init__(self, caller: Caller) -> None:
        super().__init__("http://127.0.0.1:8080")
        self._caller = caller

    def exchange(self, method: str, target: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        answer = self._caller(method, target, data)
        return answer.status_code, {}, answer.content


def sign_in(caller: Caller, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on commands are those of this caller, in the tenant acme."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    contexts.save(contexts.Contexts("here", {"here": contexts.Context("here", "http://127.0.0.1:8080", tenant="acme")}))
    monkeypatch.setattr("messaging.client.admin.Admin", lambda url, token: Resources(InProcess(caller)))
