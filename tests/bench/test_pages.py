from pathlib import Path

import pytest

from bench import browser


def test_without_a_browser_the_table_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "CHROMIUM", None)
    (row,) = browser.measure_in_browser({"a page": Path("page.html")})
    assert (row.what, row.note) == ("a page: in Chromium", "skipped: needs `apt-get install chromium chromium-driver`")
