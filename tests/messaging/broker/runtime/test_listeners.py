"""Which addresses of its listeners a broker tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from messaging.broker.runtime.listeners import open_listeners
from messaging.settings import load
from tests.support.process_certificates import ProcessCertificates


@pytest.mark.parametrize(
    ("host", "encrypted", "told"),
    [
        ("127.0.0.1", False, "http://127.0.0.1:"),
        ("127.0.0.1", True, "https://127.0.0.1:"),
        ("0.0.0.0", True, "https://b1.example.com:"),
    ],
)
def test_the_admin_rpc_is_told_as_others_reach_it(tmp_path: Path, host: str, encrypted: bool, told: str) -> None:
    internal = ProcessCertificates(tmp_path).settings if encrypted else {}
    settings = load(
        {}, data_dir=str(tmp_path), advertised_host="b1.example.com", broker_rpc_host=host, broker_port=0, ws_port=0, **internal
    )
    listeners = open_listeners(settings)
    try:
        assert listeners.addresses(settings).rpc_url == f"{told}{listeners.rpc.getsockname()[1]}"
    finally:
        listeners.close()
