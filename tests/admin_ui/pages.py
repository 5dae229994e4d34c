"""Reading a page of the console."""

from __future__ import annotations

from collections.abc import Callable

from django.test import Client

Browse = Callable[[str], Client]  # who -> a browser in which they are signed in
NAMESPACE = "/tenants/acme/namespaces/orders"


def text(client: Client, path: str, **query: str) -> str:
    response = client.get(path, query)
    assert response.status_code == 200, path
    return response.content.decode()
