"""A real OpenID provider on a free port of loopback, of the package oidc-provider-mock, and its file of settings for us."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests


class OpenIDProvider:
    def __init__(self, issuer: str) -> None:
        self.issuer = issuer

    def say(self, subject: str, **claims: Any) -> None:
        """What it says about somebody from now on."""
        requests.put(f"{self.issuer}/users/{subject}", json=claims, timeout=10).raise_for_status()

    def remove(self, subject: str) -> None:
        """All tokens of the person are taken back."""
        requests.post(f"{self.issuer}/users/{subject}/revoke-tokens", timeout=10).raise_for_status()

    def approve(self, address: str, subject: str) -> str:
        """Where the browser of somebody who signs in there is sent back to."""
        answer = requests.post(address, data={"sub": subject}, allow_redirects=False, timeout=10)
        assert answer.status_code == 302, answer.text
        return answer.headers["Location"]

    def deny(self, address: str) -> str:
        answer = requests.post(address, data={"action": "deny"}, allow_redirects=False, timeout=10)
        state = parse_qs(urlsplit(address).query)["state"][0]  # which it forgets here
        return f"{answer.headers['Location']}&state={state}"


@contextmanager
def openid_provider() -> Iterator[OpenIDProvider]:
    os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # loopback without TLS
    from oidc_provider_mock import run_server_in_thread

    with run_server_in_thread() as server:
        yield OpenIDProvider(f"http://localhost:{server.server_port}")


def write_file(folder: Path, provider: OpenIDProvider, more: str = "", *, name: str = "corp") -> str:
    """Names `provider` in a file of providers; `more` are lines of its table, and further tables."""
    secret = folder / "client-secret"
    secret.write_text("hush\n")
    file = folder / f"{name}-{uuid.uuid4().hex}.toml"  # each path is read once a process
    file.write_text(
        f'[[provider]]\nid = "{name}"\nname = "Corp"\nissuer = "{provider.issuer}"\nclient_id = "magnetar"\n'
        f'client_secret_file = "{secret}"\n{more}'
    )
    return str(file)
