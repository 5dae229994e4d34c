"""What one release of the Python client can do against a platform: a JSON line for each feature that it offers.

Its argument is a JSON object, which `tests/compat/probes/__init__.py` describes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pulsar

from tests.compat.clients.python import consuming, producing, schemas
from tests.compat.clients.python.base import FEATURES, PLAN, quiet, report

assert consuming and producing and schemas  # they register their features


def run(name: str) -> None:
    client = pulsar.Client(PLAN["broker"], pulsar.AuthenticationToken(PLAN["token"]), operation_timeout_seconds=10, **quiet())
    try:
        FEATURES[name](client)
    except Exception as error:
        report(name, error)
    else:
        report(name, None)
    finally:
        client.close()


if __name__ == "__main__":
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, FEATURES))
