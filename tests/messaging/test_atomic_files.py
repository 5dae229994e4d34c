from __future__ import annotations

import os
from pathlib import Path

import pytest

from messaging.atomic_files import make_directory, replace_file, replacing


@pytest.mark.parametrize("durable", [False, True])
def test_the_new_content_takes_the_place_of_the_old(tmp_path: Path, durable: bool) -> None:
    for content in (b"old and longer", b"new"):
        replace_file(tmp_path / "file", content, durable=durable)
        assert (tmp_path / "file").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_after_a_failure_the_old_content_is_all_there_is(tmp_path: Path) -> None:
    replace_file(tmp_path / "file", b"old", durable=False)
    with pytest.raises(OSError, match="the disk is gone"), replacing(tmp_path / "file", durable=True) as draft:
        draft.write_bytes(b"half of the ne")
        raise OSError("the disk is gone")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_content_and_name_are_durable_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: steps.append(str(Path(f"/proc/self/fd/{descriptor}").readlink())) or fsync(descriptor)
    )
    monkeypatch.setattr(Path, "replace", lambda self, target: steps.append("renamed") or replace(self, target))
    replace_file(tmp_path / "file", b"new", durable=True)
    assert steps == [f"{tmp_path}/file.new", "renamed", str(tmp_path)]
    steps.clear()
    replace_file(tmp_path / "file", b"newer", durable=False)
    assert steps == ["renamed"]


def test_a_secret_is_readable_by_its_owner_alone_whatever_a_crash_left(tmp_path: Path) -> None:
    (tmp_path / "secret.new").write_bytes(b"")
    (tmp_path / "secret.new").chmod(0o644)
    replace_file(tmp_path / "secret", b"s", durable=False, mode=0o600)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_names_of_new_directories_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker's first files were synced, and could be lost with the directories that they were in."""
    synced: list[str] = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink())) or fsync(descriptor)
    )
    make_directory(tmp_path / "broker" / "feed", mode=0o700)
    assert synced == [str(tmp_path), str(tmp_path / "broker")]
    assert (tmp_path / "broker" / "feed").stat().st_mode & 0o777 == 0o700
    make_directory(tmp_path / "broker" / "feed")
    assert len(synced) == 2
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_directory(tmp_path / "file" / "folder")
