"""A document as HTML.

HTML in a document is shown as text. Links between documents lead to their pages, links to other files of the repository become
their text, and pictures that are drawings (SVG) are put into the page, where they have its colours.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from admin_ui.docs_site.library import Document, by_path, pictures

_COMMENT = re.compile(r"\A(\s*<!--.*?-->)+\s*", re.DOTALL)
_JOINT = re.compile(r"(?<=\w[_/])(?=\w|\{)|(?<=\}/)(?=\w|\{)")
_ELSEWHERE = re.compile(r"[a-z]+:")
PAGES_KEPT = 256
DEPTH_OF_CONTENTS = 3


class Heading(NamedTuple):
    level: int
    text: str
    anchor: str


class Page(NamedTuple):
    """`headings` without the title. `left_out` are the links that lead to no document."""

    title: SafeString
    body: SafeString
    headings: list[Heading]
    left_out: list[str]


@lru_cache(PAGES_KEPT)
def page_of(document: Document) -> Page:
    text = document.file.read_text(encoding="utf-8")
    if document.file.suffix == ".py":
        text = f"# {document.title}\n\n```python\n{text}```\n"
    return _Writer(document).page(_COMMENT.sub("", text))


def anchor_of(heading: str) -> str:
    """As forges make it from the text of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def plain(inline: Token) -> str:
    """The text of headings, links and such, without their marks."""
    return "".join(child.content for child in inline.children or [] if child.type in ("text", "code_inline"))


def _without_empty_heads(tokens: list[Token]) -> list[Token]:
    """A table in Markdown has a head. A cell of it without text is no heading, and a head without any is left out."""
    kept: list[Token] = []
    for index, token in enumerate(tokens):
        kept.append(token)
        if token.type == "th_open" and not tokens[index + 1].content:
            token.tag = tokens[index + 2].tag = "td"
        elif token.type == "thead_close":
            start = max(at for at, one in enumerate(kept) if one.type == "thead_open")
            if all(one.tag == "td" for one in kept[start:] if one.type == "th_open"):
                del kept[start:]
    return kept


def _name_cells(tokens: list[Token]) -> None:
    """Of a table of three and more columns, each cell says the name of its column: on a phone they are below each other."""
    heads: list[str] = []
    column = 0
    for token, inside in pairwise(tokens):
        if token.type == "thead_open":
            heads = []
        elif token.type == "th_open":
            heads.append(plain(inside))
        elif token.type == "tr_open":
            column = 0
        elif token.type == "td_open":
            if len(heads) > 2 and 0 < column < len(heads) and heads[column]:
                token.attrSet("data-column", heads[column])
            column += 1
        elif token.type == "table_close":
            heads = []


def _inline(tokens: Sequence[Token], index: int, *_: Any) -> str:
    """Paths and names with places at which a line may end, between their parts."""
    return f"<code>{_JOINT.sub('<wbr>', escape(tokens[index].content))}</code>"


class _Writer:
    """Writes one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
        self._left_out: list[str] = []
        self._anchors: set[str] = set()
        self._blocks = 0
        rules: dict[str, Callable[..., str]] = {
            "fence": self._code,
            "code_block": self._code,
            "code_inline": _inline,
            "table_open": self._table_open,
            "table_close": lambda *_: "</table></div>\n",
            "image": self._picture,
        }
        for kind, rule in rules.items():
            self._parser.add_render_rule(kind, lambda _, *given, rule=rule: rule(*given))

    def page(self, text: str) -> Page:
        tokens = _without_empty_heads(self._parser.parse(text))
        title = ""
        if tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
            title = self._render(tokens[1:2])
            del tokens[:3]
        headings = [*self._name_headings(tokens)]
        for token in tokens:
            self._lead_links(token)
        _name_cells(tokens)
        body = self._render(tokens)
        shown = [one for one in headings if one.level <= DEPTH_OF_CONTENTS]
        return Page(mark_safe(title), mark_safe(body), shown, self._left_out)  # what the library wrote: it escapes HTML

    def _render(self, tokens: list[Token]) -> str:
        written: str = self._parser.renderer.render(tokens, self._parser.options, {})
        return written

    def _name_headings(self, tokens: list[Token]) -> Iterator[Heading]:
        for opening, inline in pairwise(tokens):
            if opening.type == "heading_open":
                text = plain(inline)
                anchor = first = anchor_of(text)
                number = 0
                while anchor in self._anchors:
                    number += 1
                    anchor = f"{first}-{number}"
                self._anchors.add(anchor)
                opening.attrSet("id", anchor)
                yield Heading(int(opening.tag[1:]), text, anchor)

    def _lead_links(self, inline: Token) -> None:
        kept: list[Token] = []
        open_links: list[bool] = []
        for token in inline.children or []:
            if token.type == "link_open":
                address = self._address(str(token.attrGet("href")))
                open_links.append(bool(address))
                if not address:
                    continue
                token.attrSet("href", address)
            elif token.type == "link_close" and not open_links.pop():
                continue
            kept.append(token)
        if inline.children:
            inline.children = kept

    def _address(self, target: str) -> str:
        """Where a link of the document leads; "" where nothing is shown."""
        if _ELSEWHERE.match(target) or target.startswith("#"):
            return target
        path, hash_sign, anchor = target.partition("#")
        wanted = self._beside(path)
        found = by_path().get(wanted) or by_path().get(f"{wanted}/README.md")
        if found is not None:
            return reverse("console:docs_page", args=[found.address]) + hash_sign + anchor
        self._left_out.append(target)
        return ""

    def _beside(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(posixpath.dirname(self._document.path), path))

    def _picture(self, tokens: Sequence[Token], index: int, *_: Any) -> str:
        token = tokens[index]
        alternative = escape(token.content)
        name = posixpath.basename(str(token.attrGet("src")))
        file = pictures().get(name)
        if file is None:
            self._left_out.append(str(token.attrGet("src")))
            return alternative
        if file.suffix == ".svg":
            drawing = file.read_text(encoding="utf-8")
            drawing = drawing.replace("<svg ", f'<svg class="drawing" role="img" aria-label="{alternative}" ', 1)
            return f'<span class="drawing-scroll" tabindex="0" role="group" aria-label="Drawing">{drawing}</span>'
        return f'<img src="{reverse("console:docs_picture", args=[name])}" alt="{alternative}" loading="lazy">'

    def _table_open(self, *_: Any) -> str:
        self._blocks += 1
        return f'<div class="table-scroll" tabindex="0" role="group" aria-label="Table {self._blocks}"><table class="table">\n'

    def _code(self, tokens: Sequence[Token], index: int, *_: Any) -> str:
        """A block of code with a button that copies it; `python name.py` after the fence shows the name of the file."""
        token = tokens[index]
        self._blocks += 1
        name = f"code-{self._blocks}"
        file = token.info.strip().partition(" ")[2]
        title = f'<p class="code-file">{escape(file)}</p>' if file else ""
        label = escape(file or f"Code {self._blocks}")
        return (
            f'{title}<div class="code"><pre tabindex="0" role="group" aria-label="{label}"><code id="{name}">'
            f'{escape(token.content)}</code></pre><button type="button" class="button button-small copy" data-copy="#{name}">'
            "Copy</button></div>\n"
        )
