"""The admin client: a platform's address, a token, and the resources of /api/v1."""

from __future__ import annotations

import ssl

from messaging.client.admin.generated import Resources
from messaging.client.admin.http import TIMEOUT_S, Http


class Admin(Resources):
    """The platform at `url`, asked with `token`: that of a key, or of a superuser. `tls` None: the certificates of the system."""

    def __init__(
        self, url: str, token: str | None = None, *, tls: ssl.SSLContext | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.http = Http(url, token, tls=tls, timeout_s=timeout_s)
        super().__init__(self.http)
