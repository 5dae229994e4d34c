from __future__ import annotations

import pytest

from messaging.local_caller import is_local_caller


@pytest.mark.parametrize(
    ("host", "peer", "own", "headers", "local"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1", [], True),
        ("localhost", "::1", "::1", ["host", "user-agent"], True),
        ("127.0.0.1", "::ffff:127.0.0.1", None, [], True),
        ("0.0.0.0", "127.0.0.1", "127.0.0.1", [], False),
        ("::", "::1", "::1", [], False),
        ("", "127.0.0.1", "127.0.0.1", [], False),
        ("192.0.2.1", "127.0.0.1", "127.0.0.1", [], False),
        ("127.0.0.1", "192.0.2.9", "127.0.0.1", [], False),
        ("127.0.0.1", "127.0.0.1", "192.0.2.1", [], False),
        ("127.0.0.1", "", None, [], False),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1", ["X-Forwarded-For"], False),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1", ["x-forwarded-anything"], False),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1", ["Forwarded"], False),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1", ["VIA"], False),
    ],
)
def test_a_local_caller_comes_by_loopback_without_a_proxy(
    host: str, peer: str, own: str | None, headers: list[str], local: bool
) -> None:
    assert is_local_caller(host, peer, own, headers) is local
