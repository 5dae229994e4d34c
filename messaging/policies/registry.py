"""The registry of policies: the one place where a policy exists.

Validation, Pulsar's paths, the schema of our API, docs/policies.md and the console's texts and fields are made from it. To enforce
a policy: write the code that holds it, name that code in `enforced_by`, and add a test of its effect to
tests/messaging/broker/runtime/policies/test_policies.py.
"""

from __future__ import annotations

from messaging.policies import table_ceilings, table_delivery, table_limits, table_rates, table_storage
from messaging.policies.model import Policy

_TABLE = (*table_storage.TABLE, *table_delivery.TABLE, *table_limits.TABLE, *table_rates.TABLE, *table_ceilings.TABLE)

POLICIES: dict[str, Policy] = {policy.name: policy for policy in _TABLE}
ENFORCED: dict[str, Policy] = {policy.name: policy for policy in _TABLE if policy.enforced}
