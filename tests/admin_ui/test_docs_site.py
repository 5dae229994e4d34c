"""The documents below /docs: each is a page, each link leads somewhere, and what search finds is there."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
import zipfile
from collections import Counter
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest
import yaml
from django.test import Client
from hatchling.builders.wheel import WheelBuilder

from admin_ui.docs_site.library import OUTSIDE, UNPLACED, documents, pictures, root, section_of, sections
from admin_ui.docs_site.markdown import page_of
from admin_ui.docs_site.search import FOUND_MAX, parts, search
from controlplane.cli import main as cli

ADDRESSES = sorted(documents())
SIGNATURES = "sdk-reference"  # its blocks are signatures, made from the sources
READERS: dict[str, Callable[[str], object]] = {
    "python": lambda text: ast.parse(text),
    "json": json.loads,
    "yaml": yaml.safe_load,
    "toml": tomllib.loads,
}


class Reader(HTMLParser):
    """Ids, links and pictures of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.pictures: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"]] if given.get("id") else []  # type: ignore[list-item]
        self.links += [given["href"] or ""] if tag == "a" and "href" in given else []
        self.pictures += [given["src"] or ""] if tag == "img" else []


def read(address: str) -> Reader:
    return Reader(str(page_of(documents()[address]).body))


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_link_and_anchor_leads_somewhere(address: str, repository: Path) -> None:
    page = read(address)
    broken = []
    for link in page.links:
        path, _, anchor = unescape(link).partition("#")
        if re.match("[a-z]+:", path):
            continue  # another site
        target = path.removeprefix("/docs/") or address
        if target not in documents() or (anchor and anchor not in read(target).ids):
            broken.append(link)
    assert broken == []
    assert [picture for picture in page.pictures if picture.removeprefix("/docs/images/") not in pictures()] == []
    assert len(page.ids) == len(set(page.ids))
    # A link that is left out leads to a file of the repository that is no document.
    folder = (repository / documents()[address].path).parent
    for link in page_of(documents()[address]).left_out:
        assert (folder / link.partition("#")[0]).exists() and not link.partition("#")[0].endswith(".md"), link


def test_code_in_documents_is_code() -> None:
    """Python compiles, JSON, YAML and TOML can be read, and a command of `magnetar` exists with its options. (The programs of
    tutorials and examples are run: test_tutorials, test_examples.)"""
    seen: Counter[str] = Counter()
    for document in documents().values():
        for language, text in re.findall(r"^```(\w+)[^\n]*\n(.*?)^```$", document.file.read_text(), re.MULTILINE | re.DOTALL):
            if document.address == SIGNATURES:
                continue
            seen[language] += 1
            if language in READERS:
                READERS[language](text)
            if language == "sh":
                for line in text.replace("\\\n", " ").splitlines():
                    if re.search(r"\bmagnetar [a-z]", line):
                        seen["magnetar"] += 1
                        check_command(shlex.split(line, comments=True))
    assert all(seen[language] for language in (*READERS, "sh", "magnetar"))


def check_command(words: list[str]) -> None:
    """Raises for a command of `magnetar` that there is not, and for an option that it has not."""
    while words and words[0].rpartition("/")[2] != "magnetar":
        words = words[1:]
    command: click.Command = cli
    context = click.Context(command)
    for at, word in enumerate(words[1:], 1):
        if isinstance(command, click.Group):
            found = command.get_command(context, word)
            assert found is not None, words
            command = found
            continue
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.partition("=")[0] for word in words[at:] if word.startswith("--")}
        assert used <= known, (words, used - known)
        return


@pytest.mark.django_db
def test_each_document_is_a_page_for_everybody(client: Client) -> None:
    for address, document in documents().items():
        response = client.get(f"/docs/{address}")
        assert response.status_code == 200, address
        html = response.content.decode()
        assert f"<title>{document.title}" in unescape(html) and html.count("<h1") == 1, address
        assert "default-src 'self'" in response["Content-Security-Policy"]
        assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=\"", html), address


@pytest.mark.django_db
def test_what_is_no_document_is_not_there(client: Client) -> None:
    for path in ("nothing", "../pyproject.toml", "generate", "images/nothing.png", "getting-started.md", "adr/", "%2e%2e/README"):
        assert client.get(f"/docs/{path}").status_code == 404, path
    assert client.post("/docs").status_code == 405


@pytest.mark.django_db
def test_a_picture_is_served_as_what_it_is(client: Client) -> None:
    response = client.get("/docs/images/console.png")
    assert response["Content-Type"] == "image/png" and response.content.startswith(b"\x89PNG")


def test_every_document_is_in_the_navigation_or_listed_by_its_folder() -> None:
    shown = [one.address for section in sections() for one in section.documents]
    assert len(shown) == len(set(shown))
    for address in set(documents()) - set(shown):
        folder = address.partition("/")[0]
        assert f"/docs/{address}" in read(folder).links, f"{folder} does not list {address}"
        assert section_of(address) != UNPLACED


def test_html_in_a_document_is_text(tmp_path: Path) -> None:
    document = documents()["glossary"]
    file = tmp_path / "page.md"
    file.write_text(
        "<!-- made -->\n\n# A <b>title</b>\n\n<script>alert(1)</script> `<i>`\n\n[x](javascript:alert(1)) ![<u>](none.png)\n"
    )
    page = page_of(document._replace(file=file))
    for tag in ("<script", "<b>", "<i>", "<u>", "<!--"):
        assert tag not in page.body and tag not in page.title
    assert 'href="javascript' not in page.body


def test_cells_of_wide_tables_name_their_columns(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("|a|`b`|c|\n|-|-|-|\n|1|2|3|\n\n|d|e|\n|-|-|\n|4|5|\n")
    body = str(page_of(documents()["glossary"]._replace(file=file)).body)
    assert re.findall("<td(.*?)>", body) == ["", ' data-column="b"', ' data-column="c"', "", ""]


def test_lines_of_paths_and_names_end_between_their_parts(tmp_path: Path) -> None:
    """They were broken anywhere: `{topic}/back` and `logQuota` in the next line."""
    file = tmp_path / "names.md"
    file.write_text("`{topic}/backlogQuota` `pending_max` `a / b` `--web-port` `<a_b>`\n")
    body = str(page_of(documents()["glossary"]._replace(file=file)).body)
    assert re.findall("<code>(.*?)</code>", body) == [
        "{topic}/<wbr>backlogQuota",
        "pending_<wbr>max",
        "a / b",
        "--web-port",
        "&lt;a_<wbr>b&gt;",
    ]


def test_search_finds_what_has_all_the_words() -> None:
    found = search("message TTL retention")
    assert found.matches and len(found.matches) <= FOUND_MAX
    assert search("sixty seconds to the first message").matches[0].anchor == "sixty-seconds-to-the-first-message"
    first = search("glossary").matches[0]
    assert first.document.address == "glossary"
    assert search("").matches == search("   ").matches == search("xyzzy message").matches == []
    assert "<script>" not in search("<script>").matches.__repr__()


def test_each_part_that_search_knows_is_an_anchor_of_its_page() -> None:
    """Both are made from the same text, in two ways."""
    missing = [
        f"{part.document.address}#{part.anchor}"
        for part in parts()
        if part.anchor and part.anchor not in read(part.document.address).ids
    ]
    assert missing == []


@pytest.mark.django_db
def test_search_shows_what_was_asked_as_text(client: Client) -> None:
    html = client.get("/docs/search", {"q": "<b>bundle"}).content.decode()
    assert "<b>" not in html and "&lt;b&gt;bundle" in html
    html = client.get("/docs/search", {"q": "bundle fleet"}).content.decode()
    assert "<mark>" in html and "/docs/adr/0067" in html
    assert client.get("/docs/search", {"q": "a" * 5000}).status_code == 200


def test_an_installed_package_has_them_all(repository: Path, tmp_path: Path) -> None:
    [wheel] = WheelBuilder(str(repository)).build(directory=str(tmp_path), versions=["standard"])
    inside = set(zipfile.ZipFile(wheel).namelist())
    there = "admin_ui/docs_site/content/"
    assert {f"{there}{one.path}" for one in documents().values()} <= inside
    assert {f"{there}docs/images/{name}" for name in pictures()} <= inside
    assert {f"{there}{name}" for name in OUTSIDE} <= inside
    assert f"{there}docs/generate.py" not in inside
    assert "controlplane/cli/__init__.py" in inside and root() == repository
