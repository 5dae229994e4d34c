"""Files of a backup: what is copied of them, who may read them, what their checksums say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controlplane.backup.copies import Copies, put_back
from controlplane.backup.manifest import checksum
from messaging.settings import ConfigError


def test_a_part_of_a_file_and_zeros_behind_it(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"a" * 5000 + b"written since")
    copies = Copies(tmp_path / "backup")
    copies.copy(source, "broker/log/one", stop=5000, size=9000, first_page=lambda page: page[:2048] + bytes(len(page) - 2048))
    (file,) = copies.files
    content = (tmp_path / "backup" / "broker" / "log" / "one").read_bytes()
    assert content == b"a" * 2048 + bytes(2048) + b"a" * 904 + bytes(4000)
    assert (file.path, file.bytes, file.size) == ("broker/log/one", 5000, 9000)
    assert file.sha256 == checksum(tmp_path / "backup" / file.path, 5000)


def test_what_is_copied_is_its_owners_alone_whatever_it_was_before(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"secret")
    source.chmod(0o644)
    umask = os.umask(0)
    try:
        copies = Copies(tmp_path / "backup")
        copies.copy(source, "secrets/one")
        copies.write("broker/log/format", b"{}")
    finally:
        os.umask(umask)
    modes = {path.name: path.stat().st_mode & 0o777 for path in [tmp_path / "backup", *(tmp_path / "backup").rglob("*")]}
    assert modes == {"backup": 0o700, "secrets": 0o700, "one": 0o600, "broker": 0o700, "log": 0o700, "format": 0o600}


def test_a_file_that_became_shorter_ends_the_backup(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"short")
    with pytest.raises(ConfigError, match="ends at byte 5, but had 100 bytes"):
        Copies(tmp_path / "backup").copy(source, "one", stop=100)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "usage").mkdir()
    (tmp_path / "usage" / "link").symlink_to("/etc/passwd")
    (tmp_path / "usage" / "file").write_bytes(b"1")
    copies = Copies(tmp_path / "backup")
    copies.copy_tree(tmp_path / "usage", "usage")
    assert [file.path for file in copies.files] == ["usage/file"]


def test_a_file_that_changes_while_it_is_put_back_is_noticed(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"as it was")
    copies = Copies(tmp_path / "backup")
    copies.copy(source, "one")
    (tmp_path / "backup" / "one").write_bytes(b"as it is!")
    with pytest.raises(ConfigError, match="its checksum is another one now"):
        put_back(tmp_path / "backup", copies.files, tmp_path / "target")
