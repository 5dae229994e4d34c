"""Messages that WebSocket producers encrypt: the keys are a parameter of the connection, the rest comes with each message."""

from __future__ import annotations

import binascii

import msgspec

from messaging.broker.runtime.local.messages import EncryptionContext, EncryptionKey
from messaging.errors import InvalidValue
from messaging.json_types import decoder_of

Keys = dict[str, EncryptionKey]
KEYS_MAX = 16  # they are stored with every message


class _Key(msgspec.Struct, rename="camel"):
    key_value: bytes  # base64
    metadata: dict[str, str] | None = None


_KEYS = decoder_of(dict[str, _Key])


def read_keys(parameter: str) -> Keys:
    """`encryptionKeys`: base64 of ``{"name": {"keyValue": base64, "metadata": {...}}}``. Empty if there is no such parameter.

    Raises `InvalidValue` for anything else: the broker has no keys and cannot encrypt with one that is only named."""
    if not parameter:
        return {}
    try:
        keys = _KEYS.decode(binascii.a2b_base64(parameter, strict_mode=True))
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise InvalidValue(
            'encryptionKeys is not base64 of {"name": {"keyValue": base64, "metadata": {}}}: encrypt in the client, and send its '
            "encrypted keys"
        ) from None
    if not 1 <= len(keys) <= KEYS_MAX or not all(name and key.key_value for name, key in keys.items()):
        raise InvalidValue(f"encryptionKeys has {len(keys)} keys: send 1 to {KEYS_MAX}, each with a name and a keyValue")
    return {name: EncryptionKey(key.key_value, key.metadata or {}) for name, key in keys.items()}


def read_context(keys: Keys, param: str, compression: str, uncompressed_bytes: int) -> EncryptionContext:
    """What a message brings: `param` is base64. Raises `ValueError`."""
    return EncryptionContext(keys, binascii.a2b_base64(param, strict_mode=True), "", compression, uncompressed_bytes, None)
