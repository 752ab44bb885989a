"""Import of a user's modules."""

import sys
from pathlib import Path

import pytest

from selfwire.core.plugins import import_user_module


@pytest.mark.parametrize("known", [[], ["."], [".", "src"], ["src"]])
def test_a_module_of_the_working_directory_goes_before_one_of_its_src(
    known: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    for folder in (tmp_path, tmp_path / "src"):
        (folder / "of_a_user.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*(str(tmp_path / folder) for folder in known), *sys.path])
    monkeypatch.delitem(sys.modules, "of_a_user", raising=False)
    assert import_user_module("of_a_user").__file__ == str(tmp_path / "of_a_user.py")
    monkeypatch.delitem(sys.modules, "of_a_user")
