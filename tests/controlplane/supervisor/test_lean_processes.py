"""Processes load nothing that none of their code uses: each module costs every start and every idle machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_SETUP = (
    "from messaging.settings import load; from controlplane import datadir; settings = load(); datadir.prepare(settings);"
    "from controlplane.django_setup import set_up;"
)
PROCESSES = {
    "broker": "import messaging.broker.runtime.main",
    "web": f"import controlplane.web; {_SETUP} set_up(settings, 'controlplane.web_settings');"
    "import controlplane.asgi; from django.urls import get_resolver; get_resolver().url_patterns",
    "worker": f"import controlplane.worker; {_SETUP} controlplane.worker.set_up_django(settings)",
    "supervisor": "import controlplane.supervisor.__main__",
}
UNUSED = {
    "broker": ("rich", "click", "argparse", "sysconfig", "tomllib", "django", "celery", "allauth"),
    "web": (
        "rich",
        "click",
        "tomllib",
        "celery",
        "django.contrib.admin",
        "rest_framework.schemas.openapi",
        "pyspark",
        "redis",
        "fido2",
        "qrcode",
    ),
    "worker": ("allauth", "rich", "yaml", "tomllib", "uvicorn", "pyspark", "rest_framework"),
    "supervisor": ("msgspec", "asyncio", "structlog", "click"),
}


_TASKS = (
    "from workers.schedule import TASKS; from messaging.late_imports import imported;"
    "print(len([imported(name) for task in TASKS for name in (task.work, task.turn) if name]) >= len(TASKS) > 20)"
)


def test_a_worker_can_import_all_of_its_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not once one used a model of an app that only pages load: no alert was looked at, and tests load all apps."""
    monkeypatch.setenv("MAGNETAR_DATA_DIR", str(tmp_path))
    code = f"{PROCESSES['worker']}; {_TASKS}"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_loads_nothing_that_it_does_not_use(process: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGNETAR_DATA_DIR", str(tmp_path))
    code = f"{PROCESSES[process]}; import sys; print(*sorted(set(sys.modules) & {set(UNUSED[process])!r}))"
    done = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
