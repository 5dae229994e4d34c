"""Builds ``magnetar-client``, the SDK alone: `make client-wheel`. Run as a script.

It has the modules of `messaging.client` and those that they import, found by reading the imports, under the same names as in the
platform. So neither Django nor Spark comes along, and a module that would bring them fails a test. Do not install it beside the
platform, which has the same modules.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What is imported -> what it is called where it is installed from. Those of an extra are loaded when they are needed.
DEPENDENCIES = {
    "backports": "backports.zstd",
    "cramjam": "cramjam",
    "crc32c": "crc32c",
    "google": "protobuf",
    "lz4": "lz4",
    "mmh3": "mmh3",
    "msgspec": "msgspec",
    "re2": "google-re2",
    "websockets": "websockets",
}
EXTRAS = {"avro": "fastavro", "encryption": "cryptography", "tracing": "opentelemetry-api"}


def closure() -> tuple[dict[str, Path], set[str]]:
    """The modules of the wheel with their files, and the top-level names of the libraries that they import."""
    modules: dict[str, Path] = {}
    libraries: set[str] = set()
    paths = (ROOT / "messaging" / "client").rglob("*.py")
    waiting = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths if path.name != "wheel.py"]
    while waiting:
        name = waiting.pop()
        path = _path_of(name)
        if path is None or path in modules.values():
            continue
        modules[name] = path
        waiting.append(name.rpartition(".")[0])
        for imported in _imports(path):
            top = imported.partition(".")[0]
            if top == "messaging":
                waiting.append(imported)
            elif top not in sys.stdlib_module_names:
                libraries.add(top)
    return modules, libraries


def _path_of(module: str) -> Path | None:
    """None for a name in a module, which `from` imports as well."""
    if not module:
        return None
    path = ROOT.joinpath(*module.split("."))
    candidates = (path / "__init__.py", path.with_suffix(".py"))
    return next((candidate for candidate in candidates if candidate.exists()), None)


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def project() -> str:
    """The project file of the wheel: version, license and bounds of libraries are those of the platform."""
    platform = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = [line for lines in platform["optional-dependencies"].values() for line in lines]
    bounds = {_name(line): line for line in [*extra, *platform["dependencies"]]}
    lines = [
        "[build-system]",
        f"requires = {_list(tomllib.loads((ROOT / 'pyproject.toml').read_text())['build-system']['requires'][:1])}",
        'build-backend = "hatchling.build"',
        "[project]",
        'name = "magnetar-client"',
        f'version = "{platform["version"]}"',
        'description = "A client for Magnetar and Apache Pulsar: asyncio, typed"',
        'readme = "README.md"',
        f'license = "{platform["license"]}"',
        f'requires-python = "{platform["requires-python"]}"',
        f"dependencies = {_list(bounds[name] for name in DEPENDENCIES.values())}",
        "[project.optional-dependencies]",
        *(f"{extra} = {_list([bounds[name]])}" for extra, name in EXTRAS.items()),
        "[tool.hatch.build.targets.wheel]",
        'packages = ["messaging"]',
    ]
    return "\n".join(lines) + "\n"


def _name(requirement: str) -> str:
    return next(part for part in requirement.replace("[", " ").replace(">", " ").replace("=", " ").split())


def _list(items: Iterable[str]) -> str:
    return json.dumps(list(items))


def build(folder: Path) -> Path:
    """Returns the wheel, which is in `folder`. Raises `CalledProcessError` with the builder's messages on stderr."""
    with tempfile.TemporaryDirectory() as made:
        stage = Path(made)
        for path in closure()[0].values():
            target = stage / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        (stage / "messaging" / "py.typed").touch()
        shutil.copyfile(ROOT / "docs" / "sdk.md", stage / "README.md")
        shutil.copyfile(ROOT / "LICENSE", stage / "LICENSE")
        (stage / "pyproject.toml").write_text(project(), encoding="utf-8")
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder.resolve())]
        subprocess.run(command, cwd=stage, check=True, stdout=subprocess.DEVNULL)
    return max(folder.glob("magnetar_client-*.whl"), key=lambda path: path.stat().st_mtime)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    target.mkdir(parents=True, exist_ok=True)
    print(build(target))  # noqa: T201 - a program of its own
