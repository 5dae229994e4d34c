"""``python -m messaging.broker``: one broker, configured by `MAGNETAR_*`."""

from __future__ import annotations

import sys

from messaging.broker.runtime.main import main
from messaging.broker.runtime.storage_opening import StorageUnreachable
from messaging.settings import ConfigError, load

try:
    sys.exit(main(load()))
except ConfigError as error:
    sys.stderr.write(f"magnetar broker: {error}\n")
    sys.exit(2)
except StorageUnreachable as error:  # whoever started us may try again
    sys.stderr.write(f"magnetar broker: {error}\n")
    sys.exit(1)
