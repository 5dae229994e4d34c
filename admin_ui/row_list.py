"""Lists that may be long, one page at a time: `q` filters, `sort` orders and `page` turns the pages, on the server and in the
address, so that a link and Back show the same rows. A page costs three queries however many rows there are: how many, which, and
those. (The list of topics asks the broker instead: `admin_ui.topic_list`.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.core.paginator import Paginator
from django.db.models import F, Model, Q, QuerySet
from django.db.models.expressions import OrderBy
from django.http import QueryDict

ROWS_A_PAGE = 100
WORDS_MAX = 255
TRAIL_MAX = 20
M = TypeVar("M", bound=Model)
T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """One that rows are sorted by. `order`: its fields in the database; `value`: the same of a row that is here already. `down`:
    the first press of its head begins with the largest. Without a label it is an order that no head asks for. `about`: what
    its figures count, where the label leaves that open."""

    key: str
    label: str = ""
    order: tuple[str | OrderBy, ...] = ()
    value: Callable[[Any], Any] | None = None
    down: bool = False
    look: str = ""
    about: str = ""


@dataclass(frozen=True)
class Head:
    """`sorted`: what ``aria-sort`` says; `next`: the order that a press asks for, "" where rows are not sorted by it."""

    label: str
    look: str
    sorted: str
    next: str
    about: str


@dataclass(frozen=True)
class PageLinks:
    """Which page it is, of how many (None: nobody has counted), and the addresses of those beside it, "" where there is none."""

    number: int
    pages: int | None
    previous: str
    next: str


@dataclass(frozen=True)
class RowList(Generic[T]):
    """One page. `total`: of the rows that match `words`; `name` tells it from the other lists of the page."""

    rows: list[T]
    total: int
    words: str
    order: str
    heads: list[Head]
    links: PageLinks
    kept: list[tuple[str, str]]  # of the address, for the form of the filter
    name: str = ""

    @property
    def matches(self) -> bool:
        """Whether there may be rows that the filter hides, or a page that hides some."""
        return bool(self.rows or self.words)


def list_rows(
    query: QueryDict, rows: QuerySet[M], columns: Sequence[Column], *, searched: Sequence[str] = (), name: str = ""
) -> RowList[M]:
    """Of the database. The first column orders what is not sorted; words are looked for in the fields `searched`."""
    asked = _Asked(query, columns, name)
    if asked.words:
        wanted = Q()
        for field in searched:
            wanted |= Q(**{f"{field}__icontains": asked.words})
        rows = rows.filter(wanted)
    ordered = rows.order_by(*asked.column.order, "pk")
    in_order: Any = _Ordered(ordered.reverse() if asked.descending else ordered)  # Paginator takes slices of it and no more
    return asked.page_of(Paginator(in_order, ROWS_A_PAGE))


def list_items(
    query: QueryDict, items: Sequence[T], columns: Sequence[Column], *, text: Callable[[T], str], name: str = ""
) -> RowList[T]:
    """Of what is here already; words are looked for in `text` of each. What is not known comes last."""
    asked = _Asked(query, columns, name)
    value, words = asked.column.value or text, asked.words.lower()
    found = [item for item in items if words in text(item).lower()] if words else list(items)
    known = [item for item in found if value(item) is not None]
    known.sort(key=value, reverse=asked.descending)
    return asked.page_of(Paginator([*known, *(item for item in found if value(item) is None)], ROWS_A_PAGE))


def page_links(query: QueryDict, parameter: str, number: int, pages: int) -> PageLinks:
    def address(page: int) -> str:
        changed = query.copy()
        changed[parameter] = str(page)
        if page == 1:
            del changed[parameter]
        return f"?{changed.urlencode()}"

    return PageLinks(number, pages, address(number - 1) if number > 1 else "", address(number + 1) if number < pages else "")


def cursor_links(query: QueryDict, following: str) -> PageLinks:
    """Of rows that are paged by where the page before ended, `after`. `following`: where this one does, "" at the end. Where the
    pages before began goes along in the address, up to `TRAIL_MAX` of them: there Previous leads to the first."""
    after, trail = query.get("after", ""), query.getlist("past")[-TRAIL_MAX:] if query.get("after") else []

    def address(begin: str, past: list[str]) -> str:
        changed = query.copy()
        for name in ("after", "past"):
            changed.pop(name, None)
        if begin:
            changed["after"] = begin
            changed.setlist("past", past)
        return f"?{changed.urlencode()}"

    previous = address(trail[-1] if trail else "", trail[:-1]) if after else ""
    return PageLinks(len(trail) + 1, None, previous, address(following, [*trail, after][-TRAIL_MAX:]) if following else "")


class _Ordered(Generic[M]):
    """Rows of the database in their order, for `Paginator`. Keys come first, and from the nearer end: what is skipped, or
    sorted where no index has the order, is then a key a row and no more."""

    def __init__(self, rows: QuerySet[M]) -> None:
        self._rows = rows
        self._count: int | None = None

    def count(self) -> int:
        if self._count is None:
            self._count = self._rows.count()
        return self._count

    __len__ = count

    def __getitem__(self, asked: slice) -> list[M]:
        begin, end = asked.start, min(asked.stop, self.count())
        keys = self._rows.values_list("pk", flat=True)
        if begin > self.count() - end:
            wanted = list(keys.reverse()[self.count() - end : self.count() - begin])[::-1]
        else:
            wanted = list(keys[begin:end])
        found = {row.pk: row for row in self._rows.order_by().filter(pk__in=wanted)}
        return [found[key] for key in wanted if key in found]  # one that was deleted in between is left out


class _Asked:
    """What an address asks for. What is no such thing is ignored: an address that somebody kept may be of another release."""

    def __init__(self, query: QueryDict, columns: Sequence[Column], name: str) -> None:
        self._query, self._columns, self._name = query, columns, name
        self._page = f"{name}page"
        self.words = query.get(f"{name}q", "").replace("\x00", "").strip()[:WORDS_MAX]
        sort = query.get(f"{name}sort", "")
        by_key = {column.key: column for column in columns}
        self.given = sort.removeprefix("-") in by_key
        self.column = by_key[sort.removeprefix("-")] if self.given else columns[0]
        self.descending = sort.startswith("-") if self.given else self.column.down

    def page_of(self, paginator: Paginator[Any]) -> RowList[Any]:
        page = paginator.get_page(self._query.get(self._page))
        mine = {f"{self._name}{each}" for each in ("q", "sort", "page")}
        order = f"{'-' * self.descending}{self.column.key}"
        return RowList(
            list(page.object_list),
            paginator.count,
            self.words,
            order if self.given else "",
            [self._head(column) for column in self._columns if column.label],
            page_links(self._query, self._page, page.number, paginator.num_pages),
            [(name, str(value)) for name, value in self._query.items() if name not in mine],
            self._name,
        )

    def _head(self, column: Column) -> Head:
        if not column.order and column.value is None:
            return Head(column.label, column.look, "", "", column.about)
        if column is not self.column:
            return Head(column.label, column.look, "none", f"{'-' * column.down}{column.key}", column.about)
        if self.descending:
            return Head(column.label, column.look, "descending", column.key, column.about)
        return Head(column.label, column.look, "ascending", f"-{column.key}", column.about)


def newest_first(field: str) -> tuple[OrderBy]:
    """For a column with moments, of which some are not known."""
    return (F(field).asc(nulls_first=True),)
