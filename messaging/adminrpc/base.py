"""The base classes of requests and answers of the admin RPC."""

from __future__ import annotations

import msgspec


class Request(msgspec.Struct, kw_only=True):
    pass


class Answer(msgspec.Struct, kw_only=True):
    pass


class Empty(Answer, kw_only=True):
    pass
