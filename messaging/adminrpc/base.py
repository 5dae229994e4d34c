"""What every request and answer of the admin RPC is."""

from __future__ import annotations

import msgspec


class Request(msgspec.Struct, kw_only=True):
    pass


class Answer(msgspec.Struct, kw_only=True):
    pass


class Empty(Answer, kw_only=True):
    pass
