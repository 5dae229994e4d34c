"""Which documents there are, where, and at which address.

A document is a Markdown file of the repository, or a program of `docs/examples`. Its address is its path without `docs/` and the
ending: `docs/adr/README.md` is `adr`, `docs/billing.md` is `billing`, `CHANGELOG.md` is `changelog`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

OUTSIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "deploy/README.md")  # documents that are not in docs/
PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}

INSIDE, UNPLACED = "How it is made", "More"  # sections

# What the navigation shows, in this order; what does not exist is left out. Documents that are named nowhere are in the last
# section, except those of a folder with a README.md: that lists them.
SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Start here", ("readme", "getting-started", "compatibility", "client-matrix", "sdk-migration", "glossary")),
    (
        "Tutorials",
        (
            "tutorials",
            "tutorials/first-message",
            "tutorials/retry-queue",
            "tutorials/delayed-jobs",
            "tutorials/reading-a-bill",
            "tutorials/moving-from-pulsar",
        ),
    ),
    ("Use it", ("sdk", "examples", "api", "command-line", "messages", "explain-and-trace", "billing", "people-and-sign-in")),
    (
        "Run it",
        (
            "operators-guide",
            "deploy",
            "backup",
            "upgrading",
            "operating-the-log",
            "several-brokers",
            "postgresql",
            "bookkeeper",
            "threat-model",
        ),
    ),
    (
        "Reference",
        (
            "configuration",
            "metrics",
            "permissions",
            "limits",
            "policies",
            "admin-api",
            "sdk-reference",
            "reference-coverage",
        ),
    ),
    (INSIDE, ("architecture", "adr", "benchmarks", "contributing", "changelog")),
)
TITLES = {"readme": "Overview"}  # where the document's own heading says less


class Document(NamedTuple):
    """`path` is relative to `root()`, as links of other documents have it."""

    address: str
    path: str
    file: Path
    title: str


class Section(NamedTuple):
    title: str
    documents: list[Document]


def root() -> Path:
    """The folder with README.md, docs/ and deploy/: that of the repository, or its copy in an installed package."""
    packaged = Path(__file__).with_name("content")
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[2]


@cache
def documents() -> dict[str, Document]:
    """By address. Read once: documents come with the program and do not change while it runs."""
    folder = root()
    files = [folder / name for name in OUTSIDE]
    files += sorted((folder / "docs").rglob("*.md")) + sorted((folder / "docs" / "examples").glob("*.py"))
    found = (_document(folder, file) for file in files if file.is_file())
    return {one.address: one for one in found}


@cache
def by_path() -> dict[str, Document]:
    return {one.path: one for one in documents().values()}


@cache
def pictures() -> dict[str, Path]:
    """By the name of the file."""
    return {file.name: file for file in (root() / "docs" / "images").glob("*") if file.suffix in PICTURES}


@cache
def sections() -> list[Section]:
    known = documents()
    placed = {address for _, addresses in SECTIONS for address in addresses}
    made = [Section(title, [known[address] for address in addresses if address in known]) for title, addresses in SECTIONS]
    rest = [one for address, one in known.items() if address not in placed and not _listed_by_its_folder(address)]
    return [one for one in (*made, Section(UNPLACED, rest)) if one.documents]


def section_of(address: str) -> str:
    """The title of the section, of a document in a folder that of the folder."""
    folder = address.partition("/")[0]
    for title, addresses in SECTIONS:
        if address in addresses or folder in addresses:
            return title
    return UNPLACED


def _document(folder: Path, file: Path) -> Document:
    path = file.relative_to(folder).as_posix()
    address = path.removeprefix("docs/").removesuffix(file.suffix).removesuffix("/README").lower()
    return Document(address, path, file, TITLES.get(address) or _title(file))


def _title(file: Path) -> str:
    if file.suffix == ".py":
        return file.name
    heading = re.search(r"^# (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return heading[1].replace("`", "") if heading else file.stem


def _listed_by_its_folder(address: str) -> bool:
    folder, inside, _ = address.partition("/")
    return bool(inside) and folder in documents()
