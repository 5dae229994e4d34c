"""What is imported when it is first needed, by whichever thread needs it first.

Python lets two threads that import modules of one circle at the same time see each other's unfinished modules rather than wait for
each other for ever. Here only one imports at a time.
"""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any

_importing = threading.RLock()


def imported(target: str) -> Any:
    """What ``module:name`` names. Blocks while another thread imports. Raises as `import` does."""
    module, _, name = target.partition(":")
    with _importing:
        return getattr(import_module(module), name)
