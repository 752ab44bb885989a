"""Pages that follow a run, in a real browser: what moves without a reload, and what stays as the reader left it."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from selenium.webdriver.common.keys import Keys

from selfwire.extras.pages.view.server import ViewServer
from selfwire.models.providers import make_chat_model
from selfwire.models.sync import run_sync
from selfwire.store.library import open_library
from tests.extras.pages.browser import Browser, needs_browser
from tests.processes import kill_when, start_selfwire
from tests.wire.server import Body, WireServer, served

pytestmark = [
    pytest.mark.slow,
    needs_browser,
]
SMALL = tuple("--gate mean --batch 2 --train 2 --gate-size 2 --gate-tasks 2 --test 2 --no-baselines".split())


class Provider:
    """Answers as many requests as are allowed; the others wait."""

    def __init__(self) -> None:
        self.allowed = self.asked = 0
        self._answer = served(make_chat_model("offline"))

    def allow_one_more(self) -> None:
        self.allowed = min(self.asked, self.allowed) + 1

    async def answer(self, body: Body) -> AIMessage:
        self.asked += 1
        mine = self.asked
        while mine > self.allowed:  # noqa: ASYNC110 - the test's thread allows it
            await asyncio.sleep(0.02)
        return await self._answer(body)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = Browser("127.0.0.1")
    yield found
    found.driver.quit()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with ViewServer(tmp_path, port=0) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            serving.join()


class OpenPage:
    """A page in the browser that must not be loaded again."""

    def __init__(self, browser: Browser, address: str) -> None:
        self._browser = browser
        still = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", still)
        browser.driver.get(address)
        browser.run("(window.isFirst = true)")

    def read(self, script: str) -> Any:
        return self._browser.run(f"window.isFirst && ({script})")

    def text(self, selector: str) -> str:
        return str(self.read(f"document.querySelector({selector!r})?.textContent ?? ''"))

    def wait(self, script: str, seconds: float = 60) -> Any:
        until = time.monotonic() + seconds
        while not (found := self.read(script)):
            assert time.monotonic() < until, (script, self._browser.run("document.body.innerText.slice(0, 600)"))
            time.sleep(0.1)
        return found

    def wait_for_text(self, selector: str, text: str) -> None:
        self.wait(f"document.querySelector({selector!r})?.textContent.includes({text!r})")


def count_versions(home: Path) -> int:
    with open_library(home) as library:
        return len(run_sync(library.history("mine")).versions)


def test_a_page_follows_its_run_through_a_kill_and_a_resume(browser: Browser, tmp_path: Path, address: str) -> None:
    provider = Provider()
    with WireServer(provider.answer) as server:
        index = OpenPage(browser, address)
        assert "There are no runs yet" in index.text("#runs")
        model = ("--model", "openai:mine", "--base-url", server.url, "--embedder", "hashing")
        asked = ("evolve", "hiva", "--benchmark", "archive", "--name", "mine", "--iterations", "2", *SMALL, *model)
        env = {"PATH": "", "OPENAI_API_KEY": "none", "SELFWIRE_HOME": str(tmp_path)}
        run = start_selfwire(*asked, env=env)
        index.wait_for_text("#runs tbody td", "running")
        index.wait_for_text("#teams tbody th", "mine")
        name = index.text("#runs tbody a")

        page = OpenPage(browser, f"{address}runs/{name}")
        for allowed in (2, 3):
            provider.allowed = allowed
            page.wait_for_text("#live-spend", f"{allowed} calls")
        page.wait_for_text("#live-where", "iteration 1 of 2, train tasks")
        while count_versions(tmp_path) < 2:
            provider.allow_one_more()
            time.sleep(0.05)
        page.wait("document.getElementById('scrub')?.max === '1'")
        assert page.read("document.getElementById('scrub').value") == "1"  # nobody has chosen another
        browser.find("#scrub").send_keys(Keys.ARROW_LEFT)
        page.wait("document.getElementById('scrub').value === '0'")
        browser.click(".row .cell.wrong, .row .cell.right")
        page.wait("document.querySelector('#trail details')")
        page.read("document.querySelector('#trail details').open = true")
        opened = page.text("#trail")
        place = "document.getElementById('trail').getBoundingClientRect().top"
        top = page.read(place)

        kill_when(run, lambda: True)
        page.wait_for_text("#live-status", "interrupted")
        provider.allowed = 10**9
        again = start_selfwire("evolve", "--resume", name, env=env)
        page.wait_for_text("#live-status", "finished")
        page.wait_for_text("h1", "held-out tasks")
        assert page.read("document.getElementById('scrub').max") == "2"
        assert page.read("document.getElementById('scrub').value") == "0"
        assert page.read("document.querySelectorAll('.row').length") > 3
        assert page.text("#trail") == opened
        assert page.read("document.querySelector('#trail details').open")
        assert abs(page.read(place) - top) < 2
        assert again.communicate()[0]
    assert [one for one in browser.get_log("browser") if one["level"] in ("SEVERE", "WARNING")] == []
