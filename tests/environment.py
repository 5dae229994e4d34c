"""A pytest plugin, loaded by `-p` before Django reads its settings: the environment every test runs in.

A conftest would come too late: pytest-django loads the settings before it. The session gets a data directory of its own, so that no
test touches the user's, with first-start secrets in it, which the settings read. No `MAGNETAR_*` variable of the user's shell
reaches the tests, but those made for them. xdist's workers are children of the first process and inherit both.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile

import structlog

_OWNER = "PYTEST_OF_MAGNETAR"  # without the prefix: it is not a setting
_KEPT = ("MAGNETAR_TEST_", "MAGNETAR_JAVA_HOME")

# pytest rewrites the assertions of a thousand modules, 40 s of CPU, and keeps what it made where Python may write byte code.
# Programs that tests start inherit what the environment says.
sys.dont_write_bytecode = False

# By default structlog prints an exception with all local variables, where `rich` is installed: a second of CPU for a broker's.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

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

    from messaging.identity import create_secrets
    from messaging.settings import load

    create_secrets(load())
