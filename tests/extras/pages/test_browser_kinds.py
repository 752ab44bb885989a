"""The page of every kind of run that measures or trains, in a real browser without a network."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from selfwire.cli.app import build
from tests.extras.pages.browser import Browser, needs_browser
from tests.extras.pages.stored_runs import store_study, store_training

pytestmark = [
    pytest.mark.slow,
    needs_browser,
]
TASKS = ("--benchmark", "archive", "--tasks", "4")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("home")

    def call(*arguments: str) -> None:
        result = CliRunner().invoke(build(), [*arguments, "--home", str(home)])
        assert result.exit_code == 0, result.output

    call("compare", "single", "dytopo", *TASKS, "--evolve", "none", "--calls-per-task", "30")
    call("eval", "single", *TASKS)
    store_training(home)
    store_study(home / "study.jsonl")
    names = {kind: next((home / "runs").glob(f"{kind}-*")).name for kind in ("compare", "eval")}
    names |= {"train": "t", "ablate": str(home / "study.jsonl")}
    for kind, name in names.items():
        call("report", name, "-o", str(home / f"{kind}.html"))
    return {kind: home / f"{kind}.html" for kind in names}


@pytest.mark.parametrize("kind", ["compare", "eval", "train", "ablate"])
def test_everybody_can_read_it_and_it_asks_nobody(browser: Browser, pages: dict[str, Path], kind: str) -> None:
    page = pages[kind]
    for width, scheme in ((1600, "light"), (390, "dark")):
        browser.show(page, width=width, scheme=scheme)
        assert browser.find("h1").text
        if kind != "ablate":  # it keeps scores, and no trajectories
            browser.find("#pick-task option[value='1']").click()
            assert browser.find("#trail h3")
            assert "task=" in browser.run("location.hash")
        browser.take(f"{kind}-{scheme}-{width}")
        assert browser.run("document.documentElement.scrollWidth") <= width
        browser.check_access()
    browser.check_quiet(page)
