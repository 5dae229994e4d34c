"""Generates `bookkeeper_pb2.py` and its type stubs from `bookkeeper.proto`: ``python -m messaging.bookkeeper.generate`` (needs
the `test` extra).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCHEMA = "messaging/bookkeeper/bookkeeper.proto"
TARGETS = ("messaging/bookkeeper/bookkeeper_pb2.py", "messaging/bookkeeper/bookkeeper_pb2.pyi")
MARK = "# Generated from bookkeeper.proto by `python -m messaging.bookkeeper.generate`; not written by hand.\n"


def generated() -> dict[str, str]:
    """Target -> its expected text. Raises `CalledProcessError` if the compiler rejects the schema."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}", f"--python_out={folder}", f"--pyi_out={folder}", SCHEMA]
        subprocess.run(command, check=True)
        return {target: MARK + (Path(folder) / target).read_text() for target in TARGETS}


if __name__ == "__main__":
    for target, text in generated().items():
        (ROOT / target).write_text(text)
