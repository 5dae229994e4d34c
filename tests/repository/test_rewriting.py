"""Modules are rewritten once, before several workers import each of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

from tests.support import rewriting

SOURCE = 'from __future__ import annotations\n\nprint("it is run")\n\n\ndef test_sum() -> None:\n    assert 1 + 1 == 3\n'


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text("assert True\n")
    path = tmp_path / "test_one.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def config(request: pytest.FixtureRequest, module: Path) -> pytest.Config:
    """Of a run of the tests in that folder."""
    real = request.config
    place = SimpleNamespace(dir=module.parent)
    return cast(pytest.Config, SimpleNamespace(args=["."], invocation_params=place, stash=real.stash, getini=real.getini))


def test_a_module_is_rewritten_without_being_run_and_imported_as_it_was_made(
    config: pytest.Config, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewriting.rewrite_ahead(config, 1)
    made = rewriting.kept(module).stat()
    assert capsys.readouterr().out == ""
    spec = importlib.util.spec_from_file_location("test_one", module, loader=AssertionRewritingHook(config))
    assert spec is not None and spec.loader is not None
    imported = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(imported)
    assert capsys.readouterr().out == "it is run\n"
    assert rewriting.kept(module).stat().st_ino == made.st_ino, "it was rewritten again"
    with pytest.raises(AssertionError, match=r"assert \(1 \+ 1\) == 3"):
        imported.test_sum()


def test_only_what_changed_is_rewritten_again(config: pytest.Config, module: Path) -> None:
    rewriting.rewrite_ahead(config, 1)
    first = rewriting.kept(module).read_bytes()
    rewriting.rewrite_ahead(config, 1)
    assert rewriting.kept(module).read_bytes() == first
    module.write_text(SOURCE + "# longer\n")
    rewriting.rewrite_ahead(config, 1)
    assert rewriting.kept(module).read_bytes() != first


def test_modules_are_found_by_what_the_run_was_asked_for(config: pytest.Config, module: Path) -> None:
    assert rewriting.modules_of(config) == [module]
    config.args[:] = ["test_one.py::test_sum", str(module)]
    assert rewriting.modules_of(config) == [module]
    config.args[:] = ["helper.py"]
    assert rewriting.modules_of(config) == [module.parent / "helper.py"]


def test_a_module_that_is_wrong_fails_where_it_is_imported(config: pytest.Config, module: Path) -> None:
    module.write_text("def (:\n")
    rewriting.rewrite_ahead(config, 1)
    assert not rewriting.kept(module).exists()
