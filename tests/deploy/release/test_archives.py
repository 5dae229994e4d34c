"""A release: the same commit gives the same files, and what is installed from them runs without a checkout."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.release.archives import Refused, build, changes, release, version
from messaging.protocol.build_hot import possible
from messaging.protocol.hot_extensions import SUFFIX, folder
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("release")]

CHANGELOG = """# Changelog

## 1.2.0

## 1.1.0 - 2026-12-01

### New

- Something.

## 1.0.0

- The first.
"""
USE = """
    import sys
    import pulsar

    client = pulsar.Client(sys.argv[1], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe("installed", "s")
    client.create_producer("installed").send(b"from a wheel")
    message = consumer.receive(20_000)
    consumer.acknowledge(message)
    print(message.data().decode())
    client.close()
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("release")
    release(target, uncommitted=True)
    return target


def one(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    assert len(found) == 1, found
    return found[0]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- what is in it ---


def test_checksums_are_of_all_files(made: Path) -> None:
    lines = (made / "SHA256SUMS").read_text().splitlines()
    assert {line.split("  ")[1] for line in lines} == {path.name for path in made.iterdir()} - {"SHA256SUMS"}
    assert all(line.split("  ")[0] == digest(made / line.split("  ")[1]) for line in lines)


def test_it_has_an_archive_of_each_kind(made: Path) -> None:
    name = version()
    expected = {f"magnetar-{name}.tar.gz", f"magnetar-{name}-py3-none-any.whl", f"magnetar_client-{name}-py3-none-any.whl"}
    names = {path.name for path in made.iterdir()}
    assert expected <= names
    assert [name for name in names if "linux" in name and name.endswith(".whl")] or not possible()


def test_the_source_archive_is_the_commit(made: Path, repository: Path) -> None:
    tracked = subprocess.run(["git", "-C", str(repository), "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    with tarfile.open(one(made, "*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert set(tracked) - names <= {name for name in tracked if name.startswith(".ci/") or not (repository / name).exists()}
    assert names - set(tracked) == {"PKG-INFO"}


@pytest.mark.thorough
def test_a_second_build_has_the_same_bytes(made: Path, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the files that need no compiler; modules compiled elsewhere are beside, compared below."""
    monkeypatch.setattr("deploy.release.archives.possible_in", lambda sources: False)
    log = subprocess.run(["git", "-C", str(repository), "log", "-1", "--format=%ct"], capture_output=True, text=True, check=True)
    former = os.umask(0o077)
    try:
        build(repository, tmp_path, int(log.stdout))
    finally:
        os.umask(former)
    assert len(list(tmp_path.iterdir())) == 3
    for path in tmp_path.iterdir():
        # Not their bytes, whose difference pytest would look for, for minutes.
        assert digest(path) == digest(made / path.name), path.name


@pytest.mark.skipif(not possible(), reason="no C compiler with Python's headers: apt-get install gcc python3-dev")
def test_compiled_modules_have_the_same_bytes_wherever_they_are_compiled(made: Path) -> None:
    """`make setup` compiled them in this checkout."""
    modules = {path.name: path.read_bytes() for path in folder().glob("*" + SUFFIX)}
    with zipfile.ZipFile(one(made, "magnetar-*linux*.whl")) as opened:
        inside = {Path(name).name: opened.read(name) for name in opened.namelist() if name.endswith(SUFFIX)}
        assert all(f"/compiled/{folder().name}/" in name for name in opened.namelist() if name.endswith(SUFFIX))
    assert inside and inside == modules


def test_there_is_no_release_of_what_is_not_committed(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    (checkout / "a").write_text("1")
    subprocess.run([*git, "add", "a"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "a"], check=True)
    (checkout / "a").write_text("2")
    with pytest.raises(Refused, match=r"commit or stash them\n *M a"):
        release(tmp_path / "dist", root=checkout)
    shutil.rmtree(checkout / ".git")
    with pytest.raises(Refused, match="no checkout of git"):
        release(tmp_path / "dist", root=checkout)
    assert not (tmp_path / "dist").exists()


def test_what_changed_is_the_section_of_the_version() -> None:
    assert changes(CHANGELOG, "1.1.0") == "# Magnetar 1.1.0\n\n### New\n\n- Something.\n"
    assert changes(CHANGELOG, "1.0.0") == "# Magnetar 1.0.0\n\n- The first.\n"
    for without in ("1.2.0", "3.0.0"):
        with pytest.raises(Refused, match=rf"add a section `## {without}`"):
            changes(CHANGELOG, without)


# --- what is installed from it ---


WHEELS = {"compiled": "magnetar-*linux*.whl", "plain": "magnetar-*-py3-none-any.whl"}
# Where there is no compiler, only the second is made.
USUAL = "compiled" if possible() else "plain"


@pytest.fixture(
    scope="module", params=[name if name == USUAL else pytest.param(name, marks=pytest.mark.thorough) for name in WHEELS]
)
def installed(made: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The folder of an environment's programs. Its libraries are those of this one, whose own checkout it does not see."""
    if request.param == "compiled" and not possible():
        pytest.skip("no C compiler with Python's headers: apt-get install gcc python3-dev")
    place = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "--quiet", "--disable-pip-version-check"]
    wheel = one(made, WHEELS[request.param])
    subprocess.run([*pip, "install", "--no-index", "--no-deps", "--root-user-action=ignore", str(wheel)], check=True)
    libraries = next(path for path in sys.path if path.endswith("site-packages"))
    site = one(place, "lib/python*/site-packages")
    (site / "libraries.pth").write_text(libraries + "\n")
    yield place / "bin"
    shutil.rmtree(place)


def says(installed: Path, script: str) -> str:
    command = [str(installed / "python"), "-P", "-c", script]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, check=True).stdout.strip()


def test_its_modules_are_those_of_the_wheel(installed: Path) -> None:
    script = "import controlplane, messaging, platform; print(controlplane.__file__, messaging.__file__, platform.__file__)"
    ours, data_plane, stdlib = says(installed, script).split()
    site = str(installed.parent / "lib")
    assert ours.startswith(site) and data_plane.startswith(site) and not stdlib.startswith(site)
    assert "site-packages" not in stdlib, "the module of Python's own"


def test_its_hot_loops_are_compiled_where_the_wheel_says_so(installed: Path) -> None:
    built = next(installed.parent.glob("lib/python*/site-packages/messaging/protocol/hot")).joinpath("compiled").exists()
    assert says(installed, "from messaging.protocol import hot; print(hot.COMPILED)") == str(built)


def test_the_whole_platform_runs_from_it(installed: Path, tmp_path: Path) -> None:
    """Console with its templates and static files, the REST API, and a stock client."""
    platform = Standalone(tmp_path / "data")
    platform.program = installed / "magnetar"
    platform.start()
    try:
        page = platform.http("GET", "/sign-in")
        assert page.status == 200 and "Sign in" in page.text
        static = next(part.split('"')[0] for part in page.text.split('href="') if part.startswith("/static/") and ".css" in part)
        assert platform.http("GET", static).status == 200
        assert platform.http("GET", "/admin/v2/clusters", token=platform.admin_token).json() == ["standalone"]
        use = [sys.executable, "-P", "-c", textwrap.dedent(USE), platform.ready["broker_url"]]
        assert subprocess.run(use, capture_output=True, text=True, timeout=60).stdout == "from a wheel\n"
        assert platform.stop()[0] == 0
    finally:
        platform.close()
