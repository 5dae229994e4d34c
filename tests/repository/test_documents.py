"""Documents: links lead somewhere, and what is made from the sources is what the sources would make."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def _documents(repository: Path) -> list[Path]:
    names = subprocess.run(
        ["git", "-C", str(repository), "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [repository / name for name in names if (repository / name).is_file()]


def _anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as forges make them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_link_leads_somewhere(repository: Path) -> None:
    broken = []
    for page in _documents(repository):
        for groups in LINK.findall(page.read_text()):
            target = groups[0] or groups[1]
            if re.match(r"[a-z]+:", target):
                continue  # another site: not ours to check in a test
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists() or (anchor and file.suffix == ".md" and anchor not in _anchors(file.read_text())):
                broken.append(f"{page.relative_to(repository)} -> {target}")
    assert broken == []


def test_the_page_on_architecture_names_files_that_are_there(repository: Path) -> None:
    """By their whole path or from one of the folders below; in a text after another, from its folder. When files had moved to rooms
    the page went on to name thirty that were gone."""
    roots = (
        "",
        "messaging",
        "messaging/broker",
        "messaging/broker/core",
        "messaging/broker/runtime",
        "messaging/broker/runtime/topics",
    )
    folders = [repository / root for root in (*roots, "platform")]
    missing = []
    named = folders
    for line in (repository / "docs" / "architecture.md").read_text().splitlines():
        if not line or line.startswith("|"):
            named = folders
        for name in re.findall(r"`([a-z0-9_/]+(?:\.py|/))`", line):
            there = [folder / name for folder in named if (folder / name).exists()]
            if not there:
                missing.append(name)
            else:
                named = [*(path if path.is_dir() else path.parent for path in there), *named]
    assert missing == []


@pytest.mark.parametrize("name", ["configuration.md", "limits.md", "metrics.md", "permissions.md", "sdk-reference.md"])
def test_pages_made_from_the_sources_are_up_to_date(repository: Path, name: str) -> None:
    from docs.generate import PAGES

    assert (repository / "docs" / name).read_text() == PAGES[name](), "run make docs"


def test_the_reference_of_the_sdk_has_every_name_that_users_can_import() -> None:
    from docs.sdk_reference_page import undescribed

    assert undescribed() == []


def test_what_the_reference_leaves_out_the_blocking_classes_leave_out_too() -> None:
    from docs.blocking_client import SOURCES
    from docs.sdk_reference_page import INTERNAL

    for source in SOURCES:
        assert source.internal - {"run"} == INTERNAL.get(source.name, set()), source.name


def test_the_migration_notes_name_what_the_sdk_has(repository: Path) -> None:
    """Each argument and method in the right column of a table of calls."""
    from docs.sdk_reference_page import page

    known = set(re.findall(r"\w+", page("")))
    named: set[str] = set()
    for line in (repository / "docs" / "sdk-migration.md").read_text().splitlines():
        cells = line.split(" | ")
        if len(cells) == 2:
            named |= {argument or method for argument, method in re.findall(r"(\w+)=|\.(\w+)\(", cells[1])}
    assert len(named) > 40
    assert named - known == set()


def test_every_decision_has_its_four_parts(repository: Path) -> None:
    for page in (repository / "docs" / "adr").glob("[0-9]*.md"):
        text = page.read_text()
        for part in ("## Context", "## Decision", "## Consequences", "## Tenant isolation"):
            assert part in text, f"{page.name} lacks {part}"


def test_every_decision_is_listed(repository: Path) -> None:
    folder = repository / "docs" / "adr"
    listed = set(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text()))
    assert listed == {page.name for page in folder.glob("[0-9]*.md")}


def test_the_changelog_begins_with_the_version_that_a_release_would_have(repository: Path) -> None:
    """`make release` takes what changed from there."""
    version = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changelog = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", changelog, flags=re.MULTILINE)[0].split()[0] == version
