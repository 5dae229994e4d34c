"""Programs that read what is in deploy/, built from Go's modules into .venv/clients: `make clients`, or ``python -m
tests.deploy.installed``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.installing import Missing, require_version, run_command, tool, version_of

HOME = Path(__file__).parents[2] / ".venv" / "clients" / "deploy"
# Program -> the module that it is built from
HELM, COMPOSE = "helm", "compose"
MODULES = {HELM: "helm.sh/helm/v3/cmd/helm@v3.22.0", COMPOSE: "github.com/compose-spec/compose-go/v2/cmd@v2.16.2"}
NEEDED = "make clients, with Go 1.25 or newer"


def installed(name: str) -> str:
    """The path of the program; skips the test where it is missing."""
    path = HOME / name
    if not path.exists():
        pytest.skip(f"no {name}: {NEEDED}")
    return str(path)


def install() -> None:
    """Raises `Missing`."""
    HOME.mkdir(parents=True, exist_ok=True)
    for name, module in MODULES.items():
        made = HOME / f"{name}.module"
        if made.exists() and made.read_text() == module:
            continue
        go = tool("go", "golang-go")
        require_version("Go", (1, 25), version_of([go, "env", "GOVERSION"], HOME))
        run_command([go, "install", module], HOME, GOBIN=str(HOME), CGO_ENABLED="0")
        built = HOME / Path(module.partition("@")[0]).name
        built.rename(HOME / name)
        made.write_text(module)


if __name__ == "__main__":
    print("Installing helm and a reader of compose files", flush=True)
    try:
        install()
    except Missing as error:
        print(f"  not installed: {error}", flush=True)
