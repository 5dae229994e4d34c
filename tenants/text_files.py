"""What files of lines have in common: cells that a spreadsheet does not compute, and a last line where something is missing."""

from __future__ import annotations

import csv
import io
import json
import re

_SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20"  # and their wide forms
_FORMULA = (*_SIGNS, "\t", "\r", "\n")
_DIVIDED = re.compile(f"(?<=[;\t\r\n])[{re.escape(_SIGNS)}][^;\t\r\n]*")
INCOMPLETE = "incomplete"


def plain_cell(text: str) -> str:
    """With an apostrophe before what a spreadsheet would take for a formula: whoever names or publishes something must not have it
    compute for who reads. Numbers stay. Where lists are written with semicolons, as in German, a spreadsheet divides our lines at
    them, and at their ends, whatever is quoted."""
    divided = _DIVIDED.sub(lambda part: _plain(part[0]), text)
    return _plain(divided) if divided.startswith(_FORMULA) else divided


def _plain(text: str) -> str:
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def incomplete_line(missing: str, *, as_csv: bool) -> str:
    """The last line of a file that has not all that was asked for. `missing`: what it lacks, a sentence."""
    if not as_csv:
        return json.dumps({INCOMPLETE: missing}, ensure_ascii=False) + "\n"
    line = io.StringIO(newline="")
    csv.writer(line).writerow([INCOMPLETE, missing])
    return line.getvalue()
