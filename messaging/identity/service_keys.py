"""Rotation of the key with which a process of ours signs its service tokens, without a restart of anything.

`rotate` makes a new key and leaves the former public key beside the new one; `retire` takes the former ones away. Where the
processes are on several machines, ``<name>.pub`` is copied to the others in between.
"""

from __future__ import annotations

from pathlib import Path

from messaging.identity import files
from messaging.identity.files import PublicKey, secrets_path
from messaging.identity.service import SERVICE_NAMES
from messaging.identity.signing_keys import key_id
from messaging.settings import ConfigError, Settings

KEYS_MAX = 4  # of a process: a token may be tried with each


def service_keys(settings: Settings, name: str) -> list[str]:
    """Ids of the keys whose tokens are accepted, newest first. Raises `ConfigError`."""
    return [key_id(key) for key in files.public_keys(_path(settings, name, "pub"))]


def rotate(settings: Settings, name: str) -> str:
    """The id of the new key. The process signs with it half a minute later at the latest. Raises `ConfigError`.

    The public key is in place before the private one: at no moment is a token made that cannot be verified."""
    private, public = _path(settings, name, "key"), _path(settings, name, "pub")
    with files.locked(settings):
        former = files.public_keys(public)
        if len(former) >= KEYS_MAX:
            raise ConfigError(
                f"{KEYS_MAX} keys of {name} are accepted already, which is the limit: retire the former ones first with "
                f"`magnetar keys retire-service {name}`"
            )
        files.private_key(private)  # a machine that only verifies must not begin to sign
        beside = private.with_name(f".{private.name}.next")
        files.replace(beside, files.new_private_key())
        made = files.private_key(beside).public_key()
        _write(public, [made, *former])
        beside.replace(private)
    return key_id(made)


def retire(settings: Settings, name: str) -> int:
    """Tokens of all keys but the newest are refused from now on. Returns how many keys these are. Raises `ConfigError`."""
    private, public = _path(settings, name, "key"), _path(settings, name, "pub")
    with files.locked(settings):
        signing, keys = files.private_key(private).public_key(), files.public_keys(public)
        _write(public, [signing])
    return sum(key_id(key) != key_id(signing) for key in keys)


def _write(path: Path, keys: list[PublicKey]) -> None:
    files.replace(path, "".join(files.public_pem(key) for key in keys))


def _path(settings: Settings, name: str, ending: str) -> Path:
    if name not in SERVICE_NAMES:
        raise ConfigError(f"{name[:80]!r} is no process of the platform: name one of {', '.join(SERVICE_NAMES)}")
    return secrets_path(settings) / "identity" / f"{name}.{ending}"
