"""Files that appear whole."""

import os
import resource
from pathlib import Path
from typing import Any

import pytest

from selfwire.store.files import make_draft, place_draft


@pytest.mark.parametrize("links", [True, False], ids=["with hard links", "without"])
def test_one_of_two_drafts_gets_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no hard links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "file"
    for text, wins in (("first", True), ("second", False)):
        with make_draft(path) as draft:
            draft.write_text(text)
            assert place_draft(draft, path) is wins
    assert path.read_text() == "first"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_is_full_while_a_draft_is_copied_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "file"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with make_draft(path) as draft:
        draft.write_bytes(b"x" * 100_000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))  # Python ignores SIGXFSZ, so it is an error
        try:
            with pytest.raises(OSError, match="File too large"):
                place_draft(draft, path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
