"""An invoice on A4, made with fpdf2; the only module that loads it. Text that its font has no letters for is shown as boxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext

from workers.billing.present import Presented, present
from workers.rating.document import time_of

FONT = "Roboto"
MARGIN_MM, WIDTH_MM = 20, 170
INK, FAINT, RULE = (24, 28, 36), (96, 104, 118), (206, 211, 220)


def invoice_pdf(document: Mapping[str, Any]) -> bytes:
    """Takes some tens of milliseconds. The same document gives the same pages."""
    shown = present(document)
    page = _new_page(shown, document)
    _head(page, shown)
    _lines(page, shown)
    _sums(page, shown)
    _text(page, shown.payment, 10)
    if shown.note:
        _text(page, shown.note, 10)
    _shares(page, shown)
    return bytes(page.output())


def _new_page(shown: Presented, document: Mapping[str, Any]) -> Any:
    from font_roboto import font_files
    from fpdf import FPDF

    verify = gettext('Check it: "magnetar usage verify" computes every line again from the usage you download.')

    class Paper(FPDF):
        def footer(self) -> None:
            self.set_y(-16)
            self.set_font(FONT, size=7.5)
            self.set_text_color(*FAINT)
            self.cell(WIDTH_MM - 25, 4, verify)
            self.cell(25, 4, gettext("Page {number} of {count}").format(number=self.page_no(), count="{nb}"), align="R")

    page = Paper(format="A4")
    page.set_creation_date(time_of(document["issued_at"] or document["period"]["start"]))  # the same document, the same file
    page.add_font(FONT, fname=font_files["Roboto"])
    page.add_font(FONT, "B", fname=font_files["RobotoBold"])
    page.set_margins(MARGIN_MM, 18, MARGIN_MM)
    page.set_auto_page_break(True, 22)
    page.set_title(f"{shown.heading} {document['number']}".strip())
    page.set_author(shown.supplier[0] if shown.supplier else "")
    page.add_page()
    return page


def _head(page: Any, shown: Presented) -> None:
    _font(page, 20, bold=True)
    page.cell(100, 10, shown.heading)
    _font(page, 9, FAINT)
    page.multi_cell(70, 4.2, "\n".join(shown.supplier), align="R", new_x="LMARGIN", new_y="NEXT")
    page.set_y(max(page.get_y(), 34) + 8)
    top = page.get_y()
    _font(page, 10.5)
    page.multi_cell(85, 5.2, "\n".join(shown.customer), align="L", new_x="LMARGIN", new_y="NEXT")
    below = page.get_y()
    page.set_y(top)
    for name, value in shown.facts:
        page.set_x(MARGIN_MM + 95)
        _font(page, 9, FAINT)
        page.cell(27, 5.2, name)
        _font(page, 9)
        page.multi_cell(48, 5.2, value, align="R", new_x="LMARGIN", new_y="NEXT")
    page.set_y(max(below, page.get_y()) + 8)


def _lines(page: Any, shown: Presented) -> None:
    widths = (92, 50, 28)
    _row(page, widths, (gettext("Description"), gettext("Quantity"), gettext("Amount")), bold=True)
    for line in shown.lines:
        _row(page, widths, (line.title, line.quantity, line.amount), line.detail)
    if not shown.lines:
        _row(page, widths, (gettext("No usage and no fees"), "", ""))


def _row(page: Any, widths: tuple[float, ...], cells: tuple[str, ...], detail: str = "", *, bold: bool = False) -> None:
    """A row that is not broken over two pages. Numbers stand to the right; what is too long goes on below."""
    _font(page, 9, bold=bold)
    heights = [
        len(page.multi_cell(width - 2, 4.6, text or " ", dry_run=True, output="LINES", align="L")) * 4.6
        for width, text in zip(widths, cells, strict=True)
    ]
    _font(page, 7.5, FAINT)
    detail_lines = len(page.multi_cell(widths[0] - 2, 3.6, detail, dry_run=True, output="LINES", align="L")) if detail else 0
    height = max(max(heights), heights[0] + detail_lines * 3.6) + 2.4
    if page.will_page_break(height):
        page.add_page()
    top, left = page.get_y() + 1.2, float(MARGIN_MM)
    for index, (width, text) in enumerate(zip(widths, cells, strict=True)):
        page.set_xy(left, top)
        _font(page, 9, bold=bold)
        page.multi_cell(width - (2 if index == 0 else 0), 4.6, text, align="L" if index < len(cells) - 2 else "R")
        left += width
    if detail:
        page.set_xy(MARGIN_MM, top + heights[0])
        _font(page, 7.5, FAINT)
        page.multi_cell(widths[0] - 2, 3.6, detail, align="L")
    page.set_draw_color(*RULE)
    page.set_line_width(0.2)
    page.line(MARGIN_MM, top - 1.2 + height, MARGIN_MM + WIDTH_MM, top - 1.2 + height)
    page.set_xy(MARGIN_MM, top - 1.2 + height)


def _sums(page: Any, shown: Presented) -> None:
    page.ln(3)
    if page.will_page_break(6 * (len(shown.sums) + 2)):
        page.add_page()
    for name, amount in shown.sums:
        _sum(page, name, amount, 9.5, bold=False)
    page.set_draw_color(*INK)
    page.line(MARGIN_MM + 85, page.get_y() + 0.6, MARGIN_MM + WIDTH_MM, page.get_y() + 0.6)
    page.ln(1.4)
    _sum(page, *shown.total, 12, bold=True)
    page.ln(6)


def _sum(page: Any, name: str, amount: str, size: float, *, bold: bool) -> None:
    page.set_x(MARGIN_MM + 85)
    _font(page, size, bold=bold)
    top = page.get_y()
    page.multi_cell(50, 6, name, align="L", new_x="RIGHT", new_y="TOP")
    page.set_xy(MARGIN_MM + 135, top)
    page.cell(35, 6, amount, align="R", new_x="LMARGIN", new_y="NEXT")


def _shares(page: Any, shown: Presented) -> None:
    if not shown.shares:
        return
    page.ln(4)
    _font(page, 11, bold=True)
    if page.will_page_break(30):
        page.add_page()
    page.cell(0, 7, gettext("By namespace"), new_x="LMARGIN", new_y="NEXT")
    widths = (36, 58, 50, 26)
    _row(page, widths, (gettext("Line"), gettext("Namespace"), gettext("Quantity"), gettext("Amount")), bold=True)
    for share in shown.shares:
        _row(page, widths, share)
    if shown.shares_left:
        _text(page, gettext("{count} more are in the invoice's JSON document.").format(count=shown.shares_left), 8)


def _text(page: Any, text: str, size: float) -> None:
    _font(page, size)
    page.multi_cell(WIDTH_MM, size * 0.55, text, align="L", new_x="LMARGIN", new_y="NEXT")
    page.ln(2)


def _font(page: Any, size: float, color: tuple[int, int, int] = INK, *, bold: bool = False) -> None:
    page.set_font(FONT, "B" if bold else "", size)
    page.set_text_color(*color)
