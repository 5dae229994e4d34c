"""What pages show of a message: a line of it, the columns that were chosen or that most messages have, and all of it. Pure."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from admin_ui.translation.figures import exact
from admin_ui.translation.texts import ngettext
from messaging.payloads.paths import Path, parse_path, values_at
from tenants.browsing.pages import MessageRow

LINE_CHARACTERS = 120
CELL_CHARACTERS = 80
WHOLE_CHARACTERS = 100_000
COLUMNS_FOUND = 4
HEX_BYTES_A_LINE = 16
HEX_BYTES_MAX = 4096


@dataclass(frozen=True)
class MessageLine:
    """`cells`: of the columns. `whole`: all of the payload, as it is read."""

    row: MessageRow
    line: str
    cells: list[str]
    whole: str

    @property
    def short_id(self) -> str:
        """Without what says nothing."""
        return self.row.message_id.removesuffix(":-1").removesuffix(":-1")


def shown(row: MessageRow, columns: Sequence[tuple[str, Path]]) -> MessageLine:
    whole = whole_text(row)
    line = json.dumps(row.value, ensure_ascii=False) if row.decoded else row.text or _hex_line(row)
    return MessageLine(
        row, _cut(" ".join(line[: 4 * LINE_CHARACTERS].split()), LINE_CHARACTERS), [_cell(row, path) for _, path in columns], whole
    )


def columns_found(rows: Sequence[MessageRow]) -> list[tuple[str, Path]]:
    """The fields with values of their own that most of these messages have."""
    counts: Counter[str] = Counter()
    for row in rows:
        if row.decoded and isinstance(row.value, dict):
            counts.update(name for name, value in list(row.value.items())[:20] if not isinstance(value, dict | list))
    names = [name for name, count in counts.most_common() if 2 * count >= len(rows)][:COLUMNS_FOUND]
    return [(name, parse_path(f"$['{name}']")) for name in names if 0 < len(name) <= 40 and "'" not in name]


def whole_text(row: MessageRow) -> str:
    if row.format == "encrypted":
        return ""
    if row.decoded:
        return _cut(json.dumps(row.value, ensure_ascii=False, indent=2), WHOLE_CHARACTERS)
    return _cut(row.text, WHOLE_CHARACTERS) if row.text else hex_lines(base64.b64decode(row.payload_base64))


def is_whole(row: MessageRow, whole: str) -> bool:
    """Whether `whole`, of `whole_text`, has all of it; hexadecimal lines say themselves what is left out."""
    return not row.payload_cut and not (len(whole) == WHOLE_CHARACTERS and whole.endswith("…"))


def hex_lines(data: bytes) -> str:
    """As `hexdump -C` writes them."""
    lines = []
    for begin in range(0, min(len(data), HEX_BYTES_MAX), HEX_BYTES_A_LINE):
        part = data[begin : begin + HEX_BYTES_A_LINE]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{begin:08x}  {part.hex(' '):<47}  {text}")
    if len(data) > HEX_BYTES_MAX:
        left = len(data) - HEX_BYTES_MAX
        lines.append(ngettext("… {left} more byte", "… {left} more bytes", left).format(left=exact(left)))
    return "\n".join(lines)


def _hex_line(row: MessageRow) -> str:
    return base64.b64decode(row.payload_base64)[:40].hex(" ") if row.format != "encrypted" else ""


def _cell(row: MessageRow, path: Path) -> str:
    values = list(values_at(row.value, path)) if row.decoded else []
    return _cut(", ".join(_shown(value) for value in values[:5]), CELL_CHARACTERS)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"
