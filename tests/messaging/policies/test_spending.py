"""What a tenant is throttled to is never more than what it may have anyway."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.policies.spending import throttled

RATE, BYTES = "tenant_publish_rate_messages", "tenant_publish_rate_bytes"


@pytest.mark.parametrize(
    ("policies", "rates", "defaults", "in_force"),
    [
        ({}, {RATE: 10}, {}, {RATE: 10}),
        ({RATE: 5}, {RATE: 10}, {}, {RATE: 5}),
        ({RATE: 50}, {RATE: 10}, {}, {RATE: 10}),
        ({RATE: 0}, {RATE: 10}, {}, {RATE: 10}),  # 0 is no limit
        ({RATE: -1}, {RATE: 10}, {}, {RATE: 10}),
        ({}, {RATE: 10}, {RATE: 4}, {RATE: 4}),  # of the platform
        ({BYTES: 7, "message_ttl_s": 1}, {RATE: 10}, {}, {RATE: 10, BYTES: 7, "message_ttl_s": 1}),
        ({"message_ttl_s": 1}, {"message_ttl_s": 10, RATE: 0}, {}, {"message_ttl_s": 1}),
    ],
)
def test_the_least_rate_is_in_force(
    policies: dict[str, Any], rates: dict[str, int], defaults: dict[str, Any], in_force: dict[str, Any]
) -> None:
    assert throttled(policies, rates, defaults) == in_force
