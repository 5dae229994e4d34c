"""Contexts: the platforms that somebody works with, as kubectl has them. One file, readable by its owner alone."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

WORLD = 0o077


class WrongContext(Exception):
    """What is wrong with the contexts and what to do."""


@dataclass(frozen=True)
class Context:
    """`token_file`: where the token is read each time, so that a rotated one is used; else `token`."""

    name: str
    url: str
    broker_url: str = ""
    tenant: str = ""
    token: str = ""
    token_file: str = ""

    def read_token(self) -> str:
        if not self.token_file:
            return self.token
        try:
            return Path(self.token_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise WrongContext(
                f"the token file {self.token_file} of context {self.name!r} cannot be read: {error.strerror}"
            ) from None


@dataclass
class Contexts:
    current: str = ""
    by_name: dict[str, Context] = field(default_factory=dict)

    def chosen(self, name: str) -> Context:
        wanted = name or self.current
        if not wanted:
            raise WrongContext("there is no context: run `magnetar login URL` first")
        if wanted not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise WrongContext(f"context {wanted!r} does not exist: use one of {known}, or run `magnetar login URL`")
        return self.by_name[wanted]


def path() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(folder) / "magnetar" / "contexts.json"


def load(file: Path | None = None) -> Contexts:
    file = file or path()
    try:
        if file.stat().st_mode & WORLD:
            raise WrongContext(f"{file} holds tokens and can be read by others: chmod 600 {file}")
        stored = json.loads(file.read_text(encoding="utf-8"))
        return Contexts(stored["current"], {each["name"]: Context(**each) for each in stored["contexts"]})
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise WrongContext(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise WrongContext(f"{file} is damaged: remove it and run `magnetar login URL` again") from None


def save(contexts: Contexts, file: Path | None = None) -> None:
    """At once: whoever reads it meanwhile reads the old one."""
    file = file or path()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    stored = {"current": contexts.current, "contexts": [asdict(each) for each in contexts.by_name.values()]}
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=".contexts-")  # made with mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as written:
        json.dump(stored, written, indent=2)
        written.write("\n")
    Path(name).replace(file)
