"""Leases of brokers that end soon, so that a test can wait for what happens then."""

from __future__ import annotations

import pytest

from messaging.broker.core.ownership import lease
from messaging.broker.runtime import main
from messaging.broker.runtime.ownership import fleet_member
from messaging.storage.sql import ownership


def shorten_leases(monkeypatch: pytest.MonkeyPatch, lease_s: float) -> None:
    for module in (ownership, lease):
        monkeypatch.setattr(module, "LEASE_MS", round(lease_s * 1000))
    for module, name, seconds in (
        (lease, "RENEW_S", lease_s / 5), (fleet_member, "RENEW_S", lease_s / 5), (lease, "MARGIN_S", lease_s / 4),
        (lease, "LATE_S", lease_s / 2), (lease, "SETTLES_S", lease_s / 4), (fleet_member, "LOOK_S", lease_s / 5),
        (main, "CUT_OFF_LOOK_S", lease_s / 5),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, seconds)
