"""A pytest plugin, loaded by `-p` before Django reads its settings: the environment every test runs in.

A conftest would come too late: pytest-django loads the settings before it. The session gets a data directory of its own, so that no
test touches the user's, and no `MAGNETAR_*` variable of the user's shell reaches the tests (but those made for tests).
xdist's workers are children of the first process and inherit both.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import tempfile

_OWNER = "MAGNETAR_TEST_SESSION"
_KEPT = ("MAGNETAR_TEST_", "MAGNETAR_JAVA_HOME")

if importlib.util.find_spec("controlplane.settings"):
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

if _OWNER not in os.environ:
    for name in [name for name in os.environ if name.startswith("MAGNETAR_") and not name.startswith(_KEPT)]:
        del os.environ[name]
    directory = tempfile.mkdtemp(prefix="magnetar-test-")
    os.environ["MAGNETAR_DATA_DIR"] = directory
    os.environ[_OWNER] = str(os.getpid())

    def _remove(owner: int = os.getpid(), path: str = directory) -> None:
        if os.getpid() == owner:  # a forked child runs these hooks too
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(_remove)
