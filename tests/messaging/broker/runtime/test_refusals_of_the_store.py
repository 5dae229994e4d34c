"""What clients are told where the store refuses."""

from __future__ import annotations

import pytest

from messaging.broker.runtime.topics.services import refusal_of
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import AppendFailed, Fenced, LedgerClosed, StoreError, Unavailable


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Fenced("another broker owns it"), pb.ServiceNotReady),
        (LedgerClosed("it was closed"), pb.ServiceNotReady),
        (Unavailable("the database does not answer"), pb.ServiceNotReady),
        (AppendFailed("the disk reported an error"), pb.PersistenceError),
    ],
)
def test_what_may_succeed_later_or_elsewhere_is_service_not_ready(error: StoreError, code: int) -> None:
    """As in Pulsar: clients look the topic up again."""
    refused = refusal_of(error, "topic t cannot be opened")
    assert refused.wire_code == code and str(error) in refused.message
