"""Words: public names use the terms of docs/glossary.md or plain words, and dialect that was given up does not come back."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository.syntax import Facts, facts

HERE = Path(__file__).parent
PACKAGES = ("messaging", "tenants", "admin_ui", "workers", "spark_jobs", "platform/controlplane")
DATA_PLANE = ("messaging/protocol", "messaging/broker", "messaging/storage")
# What people read: documents, pages, forms, help and errors of the command line.
PROSE = ("*.md", "admin_ui/**", "platform/controlplane/cli/*", "platform/controlplane/doctor/*", "platform/controlplane/*.py")
HISTORY = ("docs/adr/", "docs/benchmarks/", "research/")


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name)]


def singulars(word: str) -> set[str]:
    """The word and what it may be the plural of."""
    forms = {word, word.removesuffix("s"), word.removesuffix("es")}
    return forms | {word.removesuffix("ies") + "y"} if word.endswith("ies") else forms


def _listed(repository: Path, *patterns: str) -> list[str]:
    command = ["git", "-C", str(repository), "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in names if (repository / name).is_file()]


@pytest.fixture(scope="module")
def sources(repository: Path) -> dict[str, Facts]:
    """Every module of the product, by its path."""
    names = _listed(repository, *(f"{package}/*.py" for package in PACKAGES))
    kept = [name for name in names if "/migrations/" not in name and not name.endswith("_pb2.py")]
    return {name: facts(repository / name) for name in kept}


@pytest.fixture(scope="module")
def terms(repository: Path) -> set[str]:
    """Words of the glossary's terms and of the plain list."""
    rows = re.findall(r"^\| ([^|]+) \|", (repository / "docs" / "glossary.md").read_text(), re.MULTILINE)
    plain = (HERE / "plain_words.txt").read_text().split("\n")
    listed = " ".join(line for line in plain if not line.startswith("#"))
    words = {word for text in (*rows, listed) for word in re.findall(r"[a-z]+", text.replace("(ours)", "").lower())}
    return set().union(*map(singulars, words))


def _public_names(sources: dict[str, Facts]) -> Iterator[tuple[str, str]]:
    """(where, name) of every module, package and public class."""
    for path, module in sources.items():
        for part in path.removeprefix("platform/").removesuffix(".py").split("/"):
            if not part.startswith("__"):
                yield path, part
        yield from ((path, name) for name in module.classes)


def test_public_names_use_words_that_are_defined(sources: dict[str, Facts], terms: set[str]) -> None:
    unknown = {
        word: f"{word!r} in {name} ({path})"
        for path, name in _public_names(sources)
        for word in words_of(name)
        if not singulars(word) & terms
    }
    assert not unknown, (
        "Use a term of docs/glossary.md, or define the new one there (a standard term if the field has one). "
        "Words of programming, protocols and everyday English go into tests/repository/plain_words.txt.\n"
        + "\n".join(sorted(unknown.values()))
    )


def test_a_class_of_the_data_plane_has_a_name_of_its_own(sources: dict[str, Facts]) -> None:
    paths_by_name: dict[str, list[str]] = {}
    for path, module in sources.items():
        if path.startswith(DATA_PLANE):
            for name in module.classes:
                paths_by_name.setdefault(name, []).append(path)
    assert {name: paths for name, paths in paths_by_name.items() if len(paths) > 1} == {}


@pytest.fixture(scope="module")
def refused() -> dict[str, dict[str, str]]:
    return tomllib.loads((HERE / "refused_words.toml").read_text())


def test_no_name_uses_a_refused_word(sources: dict[str, Facts], refused: dict[str, dict[str, str]]) -> None:
    words = refused["names"]
    uses = {
        f"{path}: {name}: say {words[word]!r}"
        for path, module in sources.items()
        for name in (*module.defined, *path.removesuffix(".py").split("/"))
        for word in words_of(name)
        if word in words
    }
    assert sorted(uses) == []


def _prose(repository: Path) -> Iterator[tuple[str, int, str]]:
    """(path, line, text) of what people read; code in backticks and addresses of links are left out."""
    for name in _listed(repository, *(f":(glob){pattern}" for pattern in ("**/*.md", *PROSE))):
        text = (repository / name).read_text(errors="replace")
        if name.startswith(HISTORY):
            continue
        if name.endswith(".py"):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield name, node.lineno, node.value
        elif name.endswith((".md", ".html", ".js")):
            for number, line in enumerate(text.splitlines(), 1):
                yield name, number, re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)


def test_no_text_for_people_uses_a_refused_phrase(repository: Path, refused: dict[str, dict[str, str]]) -> None:
    uses = [
        f"{path}:{line}: {match.group()!r}: say {instead!r}"
        for path, line, text in _prose(repository)
        for pattern, instead in refused["prose"].items()
        for match in re.finditer(pattern, text)
    ]
    assert uses == []


@pytest.mark.parametrize(
    ("name", "words"),
    [("LedgerStore", ["ledger", "store"]), ("tls_listener", ["tls", "listener"]), ("HTTPGuard", ["http", "guard"])],
)
def test_names_are_split_into_words(name: str, words: list[str]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    ("plural", "word"), [("policies", "policy"), ("batches", "batch"), ("caches", "cache"), ("status", "status"), ("ages", "age")]
)
def test_a_plural_counts_as_its_singular(plural: str, word: str) -> None:
    assert word in singulars(plural)


def test_a_word_of_dialect_is_no_term(terms: set[str], refused: dict[str, dict[str, str]]) -> None:
    assert [word for word in refused["names"] if singulars(word) & terms] == []
