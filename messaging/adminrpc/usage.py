"""Admin RPC: usage records."""

from __future__ import annotations

import msgspec

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request
from messaging.adminrpc.brokers import BrokerAsked


class UsageFlush(Request, kw_only=True):
    """Closes the running interval and writes it out, so that a job sees usage up to now."""

    task_id: fields.Name


class UsageFlushed(Answer, kw_only=True):
    files: list[str]  # paths of Parquet files below DATA_DIR/usage/raw
    rows: int


class UsageFileList(BrokerAsked, kw_only=True):
    """The files of one folder below DATA_DIR/usage/raw on the broker's machine, behind the name `after_file`. `usage_folder` "":
    which folders there are."""

    usage_folder: fields.UsageFolder = ""
    after_file: fields.UsageFileName = ""


class UsageFile(msgspec.Struct, kw_only=True):
    name: str
    size_bytes: int


class UsageFilesPage(Answer, kw_only=True):
    """`folders` with files, such as date=2026-11-27/hour=08, or `files` by name, and whether there are `more`."""

    folders: list[str]
    files: list[UsageFile]
    more: bool


class UsageFileRead(BrokerAsked, kw_only=True):
    """A piece of a file. Raises not_found if it is not there any more: it became part of another one."""

    usage_folder: fields.UsageFolder
    file_name: fields.UsageFileName
    file_offset: fields.UsageOffset = 0


class UsageFilePiece(Answer, kw_only=True):
    """`data` ends with the file where `size_bytes` is reached."""

    data: bytes
    size_bytes: int
