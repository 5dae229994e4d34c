"""Texts of Python sources that people read and no translator sees. A literal counts as such a text if it begins like a sentence or
has several words, and is neither an argument of `gettext` or its kin, nor of what only programs and developers read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

MARKS = frozenset({"gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_noop", "pgettext", "pgettext_lazy"})
# Calls whose texts nobody sees in a page.
_FOR_PROGRAMS = frozenset(
    {
        "AssertionError",
        "ImproperlyConfigured",
        "Literal",
        "NewType",
        "RuntimeError",
        "TypeError",
        "TypeVar",
        "cast",
        "compile",
        "get",
    }
) | {"debug", "error", "exception", "getLogger", "info", "warning", "startswith", "endswith", "removeprefix", "removesuffix"}
_KEYWORDS = frozenset({"label", "help_text"})  # templates translate them: `docs.translations` finds them
_WORDS = re.compile(r"[A-Za-z]{2,} [A-Za-z]{2,} [A-Za-z]{2,}|^[A-Z][a-z]+(?:[ .:,…]|$)")
# The same in every language, or no text: names of headers, formats and zones, SQL, markup, classes of CSS.
_SAME = re.compile(
    r"(?:Pulsar(?: Java| CPP|: )"
    r"|Lax|True|False|Spark|Java|Python|Avro|Protobuf|MessagePack|Magnetar|Bearer |Allow|Accept|Location|Vary|Cookie|Range"
    r"|Referer|Authorization|Host|Origin|Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific|HX-)"
    r"|[<#?%/]|[a-z-]+(?: [a-z-]+)*\.html|attachment;|default-src"
)


def unmarked(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each."""
    yield from _below(ast.parse(source))


def _below(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Call) and _name(node.func) in MARKS | _FOR_PROGRAMS:
        return
    if isinstance(node, ast.keyword) and node.arg in _KEYWORDS and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Compare | ast.Assert) or (isinstance(node, ast.arg) and node.annotation is not None):
        return
    text = _text(node)
    if text is not None:
        if _WORDS.search(text) and not _SAME.match(text):
            yield getattr(node, "lineno", 0), text
        if isinstance(node, ast.JoinedStr):  # what is filled in may say something, too
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    yield from _below(part.value)
        return
    for name, child in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "keys", "slice"):
            continue
        for each in child if isinstance(child, list) else [child]:
            if isinstance(each, ast.AST):
                yield from _below(each)


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def main() -> None:
    root = Path(__file__).resolve().parents[1]
    for path in sorted((root / "admin_ui").rglob("*.py")):
        for line, text in unmarked(path.read_text(encoding="utf-8")):
            print(f"{path.relative_to(root)}:{line}: {text[:120]!r}")  # noqa: T201


if __name__ == "__main__":
    main()
