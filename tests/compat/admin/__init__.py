"""The commands of `pulsar-admin`, and what a real Pulsar answered to the requests that they make.

`commands/*.toml` are chapters: lists of steps, each a command or a line of `steps.prepare`. `make oracle ARGS=--admin` runs them
with Pulsar's own tool and writes the requests of each command with their answers to `recorded/`; the suite sends the same requests
to ours. `not_yet.toml` lists the commands that are answered otherwise today, `ours.toml` those that are on purpose, with reasons.
"""

from __future__ import annotations

from tests.compat.admin.catalogue import NOT_YET, OURS, TREE, UNTRIED, chapters, keyed, load_recorded
from tests.compat.admin.replay import Found, replay
from tests.compat.admin.report import compare

__all__ = ["NOT_YET", "OURS", "TREE", "UNTRIED", "Found", "chapters", "compare", "keyed", "load_recorded", "replay"]
