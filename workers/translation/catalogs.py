"""Catalogues of translations: `locale/<language>/LC_MESSAGES/django.po` are kept, and compiled where the platform runs.

Python's gettext reads compiled catalogues (MO files). They are made in the data directory when a process finds none of the text
that is installed: nothing has to be built, no compiled file can be older than its text, and no gettext tools are needed.
"""

from __future__ import annotations

import ast
import hashlib
import os
import struct
from contextlib import suppress
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "admin_ui" / "locale"
_MAGIC = 0x950412DE
_KEEP = 0o755


def compiled(data_path: Path) -> Path:
    """The folder with compiled catalogues, in the form of LOCALE_PATHS. Makes what is missing; where it cannot, on a full disk say,
    the console is in English. Raises `ValueError` for a catalogue that cannot be read."""
    sources = sorted(SOURCES.glob("*/LC_MESSAGES/django.po"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = data_path / "cache" / f"locale-{digest}"
    for source in sources:
        target = folder / source.relative_to(SOURCES).with_suffix(".mo")
        if target.exists():
            continue
        made = to_mo(read_po(source.read_text(encoding="utf-8")))
        with suppress(OSError):
            target.parent.mkdir(parents=True, exist_ok=True, mode=_KEEP)
            written = target.with_name(f"{target.name}.{os.getpid()}")
            written.write_bytes(made)
            written.replace(target)  # whole, also when several processes start at once
    return folder


def read_po(text: str) -> dict[str, str]:
    """Keys and texts as MO files have them: with a context before `\\x04`, plurals after `\\x00`. Entries that are marked as fuzzy
    or have no translation are left out. Raises `ValueError`."""
    found: dict[str, str] = {}
    entry: dict[str, str] = {}
    field, fuzzy = "", False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        line = line.strip()
        if not line:
            _keep(found, entry, fuzzy)
            entry, field, fuzzy = {}, "", False
        elif line.startswith("#,"):
            fuzzy = "fuzzy" in line
        elif not line.startswith("#"):
            if not line.startswith('"'):
                field, _, line = line.partition(" ")
                entry[field] = ""
            try:
                entry[field] += ast.literal_eval(line)
            except (KeyError, SyntaxError, ValueError):
                raise ValueError(f"line {number} of a catalogue is neither a comment nor a text in quotes: {line[:80]}") from None
    return found


def _keep(found: dict[str, str], entry: dict[str, str], fuzzy: bool) -> None:
    if "msgid" not in entry or fuzzy:
        return
    key = entry["msgid"]
    if "msgctxt" in entry:
        key = f"{entry['msgctxt']}\x04{key}"
    texts = [entry.get("msgstr", "")]
    if "msgid_plural" in entry:
        key += f"\x00{entry['msgid_plural']}"
        texts = [text for name, text in sorted(entry.items()) if name.startswith("msgstr[")]
    if all(texts):
        found[key] = "\x00".join(texts)


def to_mo(texts: dict[str, str]) -> bytes:
    """A MO file: a header, a table of keys and one of texts (length and offset of each), then all of them, sorted by key."""
    pairs = sorted((key.encode(), text.encode()) for key, text in texts.items())
    count = len(pairs)
    header, table = 28, 8 * count
    offset = header + 2 * table
    tables: list[bytes] = []
    data = b""
    for column in (0, 1):
        for pair in pairs:
            tables.append(struct.pack("<II", len(pair[column]), offset + len(data)))
            data += pair[column] + b"\x00"
    return struct.pack("<7I", _MAGIC, 0, count, header, header + table, 0, header + 2 * table) + b"".join(tables) + data
