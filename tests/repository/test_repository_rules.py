"""Repository rules that no linter knows: what may lie where, and what never goes into a commit."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("messaging", "tenants", "admin_ui", "workers", "spark_jobs", "platform/controlplane")
LINES_MAX = 500
TEXT = {
    ".py",
    ".md",
    ".txt",
    ".toml",
    ".json",
    ".yml",
    ".yaml",
    ".html",
    ".css",
    ".js",
    ".sh",
    ".proto",
    ".cfg",
    ".service",
    ".ini",
    "",
}


@pytest.fixture(scope="module")
def committed(repository: Path) -> list[Path]:
    """Files that are, or would be, in a commit."""
    command = ["git", "-C", str(repository), "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [path for path in (repository / name for name in names) if path.is_file()]


def _texts(files: list[Path]) -> Iterator[tuple[Path, str]]:
    for path in files:
        if path.suffix in TEXT and path.stat().st_size < 2_000_000:
            yield path, path.read_text(errors="replace")


def _found(files: list[Path], pattern: str, repository: Path) -> list[str]:
    expression = re.compile(pattern, re.MULTILINE)  # of whole texts first: few have a line to look for
    return [
        f"{path.relative_to(repository)}:{number}: {line.strip()[:120]}"
        for path, text in _texts(files)
        if expression.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if expression.search(line)
    ]


# --- the layout --------------------------------------------------------------------------------------------------------------


def test_platform_is_a_source_root_and_no_package(repository: Path) -> None:
    """With an `__init__.py`, or read as a package, it would hide Python's own `platform` from half the libraries in use."""
    assert not (repository / "platform" / "__init__.py").exists()
    assert [path.name for path in (repository / "platform").iterdir() if path.suffix in (".py", ".pyi", ".so")] == []


def test_pythons_own_platform_is_what_one_gets_in_the_repository(repository: Path) -> None:
    script = "import platform; print(platform.python_version())"
    result = subprocess.run([sys.executable, "-c", script], cwd=repository, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ".".join(str(part) for part in sys.version_info[:3])


def test_every_package_is_in_the_wheel(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    assert sorted(project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]) == sorted((*PACKAGES, "docs"))


def test_every_folder_of_modules_is_a_package(repository: Path) -> None:
    folders = {path.parent for package in PACKAGES for path in (repository / package).rglob("*.py")}
    assert [str(folder.relative_to(repository)) for folder in folders if not (folder / "__init__.py").exists()] == []


# --- imports -----------------------------------------------------------------------------------------------------------------


def test_the_import_contracts_hold(repository: Path) -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    result = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_spark_jobs_import_only_themselves_and_the_schema_of_usage(repository: Path) -> None:
    ours = {Path(package).name for package in PACKAGES}
    strangers = []
    for path in (repository / "spark_jobs").rglob("*.py"):
        for name in _imported(ast.parse(path.read_text())):
            if name.split(".")[0] in ours - {"spark_jobs"} and name != "messaging.usage_schema":
                strangers.append(f"{path.name}: {name}")
    assert strangers == []


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from names if node.module == "messaging" else [node.module]


# --- what is never committed -------------------------------------------------------------------------------------------------


def test_no_lock_file(committed: list[Path]) -> None:
    """They record the addresses of package hosts; constraints.txt does not."""
    names = {"uv.lock", "poetry.lock", "Pipfile.lock", "package-lock.json", "yarn.lock", "pnpm-lock.yaml"}
    assert [path.name for path in committed if path.name in names or re.fullmatch(r"pylock.*\.toml", path.name)] == []


def test_constraints_are_pins_and_nothing_else(repository: Path) -> None:
    lines = (repository / "constraints.txt").read_text().splitlines()
    pin = re.compile(r"[a-z0-9.-]+(\[[a-z0-9,-]+\])?==[^\s;]+( ; [^:]+)?")
    assert [line for line in lines if line and not line.startswith("#") and not pin.fullmatch(line)] == []


def test_dependencies_of_the_project_are_pinned(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(item for extra in project["optional-dependencies"].values() for item in extra)]
    pinned = {re.split(r"[\[=]", line)[0] for line in (repository / "constraints.txt").read_text().splitlines()}
    names = {re.split(r"[\[<>=; ]", item)[0].lower().replace("_", "-").replace(".", "-") for item in asked}
    assert names - pinned == set()


def test_no_address_of_a_package_host(committed: list[Path], repository: Path) -> None:
    # Each name is written in two parts, so that this module does not find itself.
    hosts = (
        "pypi" + r"\.org",
        "python" + r"hosted\.org",
        "registry" + r"\.npm",
        "maven" + r"\.org",
        "deb" + r"\.debian",
        "index" + "-url",
    )
    assert _found(committed, "|".join(hosts), repository) == []


def test_no_path_of_one_machine(committed: list[Path], repository: Path) -> None:
    # The slash comes first: it is what the search can jump to.
    pattern = r"/(?:(?<![\w.]/)(?:root|work)/|home/" + r"[a-z]\w+/|" + "tmp/prep)"
    assert _found(committed, pattern, repository) == []


def test_no_secret(committed: list[Path], repository: Path) -> None:
    """Tests make theirs when they run."""
    pattern = r"-----BEGIN [A-Z ]*PRIVATE KEY-----$|\beyJ[\w-]{20,}\.[\w-]{10,}\.[\w-]{20,}"
    assert _found(committed, pattern, repository) == []


def test_nothing_large_and_nothing_compiled(committed: list[Path], repository: Path) -> None:
    large = [str(path.relative_to(repository)) for path in committed if path.stat().st_size > 1_500_000]
    compiled = [str(path.relative_to(repository)) for path in committed if path.suffix in (".so", ".pyc", ".whl", ".jar")]
    assert (large, compiled) == ([], [])


def test_tests_do_not_wait_by_sleeping(committed: list[Path], repository: Path) -> None:
    """They poll a condition (`tests/support/waiting.py`), wait for an event, or are handed the time; `asyncio.sleep(0)` yields."""
    tests = [
        path
        for path in committed
        if "tests" in path.relative_to(repository).parts and path.suffix == ".py" and path.name not in ("waiting.py",)
    ]
    pattern = r"\btime\.sleep\(|asyncio\.sleep\((?!0\))"
    assert [
        line
        for line in _found(tests, pattern, repository)
        if not line.startswith(("tests/repository", "tests/benchmarks", "tests/simulation"))  # the last has a time of its own
    ] == []


def test_modules_stay_of_a_size_that_can_be_read(committed: list[Path], repository: Path) -> None:
    """One concept a file: usually 100 to 300 lines, 500 at most where a concept needs them; generated code is not read."""
    ours = [
        path
        for path in committed
        if path.suffix == ".py"
        and "migrations" not in path.parts
        and "tests" not in path.parts
        and not path.stem.endswith(("_pb2", "generated"))
    ]
    sizes = {str(path.relative_to(repository)): len(path.read_text().splitlines()) for path in ours}
    assert {name: size for name, size in sizes.items() if size > LINES_MAX} == {}
