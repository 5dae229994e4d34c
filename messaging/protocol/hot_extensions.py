"""Locates the compiled extension modules of `hot`: in a folder named by a digest of the sources that they were compiled from.

So a changed source never runs beside modules compiled from an older version: until `make setup` compiles it again, the loops run as
plain Python.
"""

from __future__ import annotations

import hashlib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

PACKAGE = Path(__file__).resolve().with_name("hot")
SOURCES = tuple(PACKAGE / name for name in ("common.py", "metadata.py", "incoming.py", "acks.py", "outgoing.py", "keyed.py"))
SUFFIX = next(iter(EXTENSION_SUFFIXES), ".so")
COMPILED = PACKAGE / "compiled"


def folder() -> Path:
    """The folder of the extension modules for the current sources; it exists if they are compiled."""
    digest = hashlib.sha256()
    for source in SOURCES:
        for path in (source, source.with_suffix(".pxd")):
            digest.update(path.read_bytes() if path.exists() else b"")
    return COMPILED / digest.hexdigest()[:16]


def built() -> bool:
    return all((folder() / (source.stem + SUFFIX)).exists() for source in SOURCES)
