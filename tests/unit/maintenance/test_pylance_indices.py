"""What stands in for pylance is recognized: a directory of its name, a damaged installation, and another release."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from lance_core.errors import NotSupportedError
from lance_pipelines.maintenance import pylance_indices
from lance_pipelines.maintenance.pylance_indices import PylanceBranch, missing_extra


def test_a_directory_of_datasets_is_not_taken_for_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(tmp_path, "lance_tables", "events.lance").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(pylance_indices, "_MODULE", "lance_tables")
    assert missing_extra() == "the package pylance is not installed: pip install 'lance-pipelines[pylance]'"


def test_a_package_that_cannot_be_imported_raises_not_supported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(tmp_path, "lance.py").write_text("raise ImportError('libgomp.so.1: cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "lance")
    with pytest.raises(NotSupportedError, match=r"cannot open branch 'b' of /t: .* cannot be used: libgomp\.so\.1: "):
        PylanceBranch("/t", "b")


def test_a_release_without_the_needed_functions_raises_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("lance")
    other.__spec__ = ModuleSpec("lance", None, origin="lance.py")
    monkeypatch.setitem(sys.modules, "lance", other)
    with pytest.raises(
        NotSupportedError, match="the installed pylance cannot be used: module 'lance' has no attribute"
    ):
        PylanceBranch("/t", "b")
