"""Pages in a real browser, without a network: what a click shows, errors, requests, and what axe-core finds."""

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from selfwire.report.page import render_page
from tests.report.samples import make_place, make_report, make_trail, make_version

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
SHOTS = Path(__file__).parents[2] / ".screenshots"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs `apt-get install chromium chromium-driver`"),
]
HOSTILE = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"


class Browser:
    """A headless Chromium that reaches no host, or only the one that is given."""

    def __init__(self, host: str = "") -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        rules = "MAP * ~NOTFOUND" + (f", EXCLUDE {host}" if host else "")
        for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", f"host-resolver-rules={rules}"):
            options.add_argument(f"--{argument}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
        self.driver.implicitly_wait(3)

    def show(self, page: Path, address: str = "", *, width: int = 1600, scheme: str = "light") -> None:
        """Open a page anew."""
        media = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in media.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get("about:blank")
        self.driver.get(page.as_uri() + address)

    def find(self, selector: str) -> Any:
        """An element by its CSS selector."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def click(self, selector: str) -> None:
        """Click in the middle of an element, on whatever is drawn there."""
        ActionChains(self.driver).move_to_element(self.find(selector)).click().perform()

    def get_log(self, name: str) -> list[dict[str, Any]]:
        """What was logged since the last time."""
        found: list[dict[str, Any]] = self.driver.get_log(name)  # type: ignore[no-untyped-call]
        return found

    def run(self, script: str) -> Any:
        """What a script returns."""
        return self.driver.execute_script(f"return {script}")

    def take(self, name: str) -> None:
        """Keep a picture of the whole page for people to look at."""
        size = {"width": self.run("innerWidth"), "height": self.run("document.documentElement.scrollHeight")}
        clip = {"x": 0, "y": 0, "scale": 1, **size}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        SHOTS.mkdir(exist_ok=True)
        (SHOTS / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def read_requests(self) -> set[str]:
        """Addresses that were asked for since the last time."""
        found = [json.loads(one["message"])["message"] for one in self.get_log("performance")]
        return {one["params"]["request"]["url"] for one in found if one["method"] == "Network.requestWillBeSent"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = Browser()
    yield found
    found.driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    versions = [
        make_version(0, ("plan", "answer")),
        make_version(1, ("plan", "check", "answer"), text=HOSTILE),
        make_version(2, ("plan", "answer"), accepted=False),
    ]
    trails = [make_trail("right"), make_trail("wrong", HOSTILE, score=0.0), make_trail("broken", score=None)]
    names = ("0/rollout", "0/gate/incumbent", "0/gate/candidate", "0/test/before", "0/test/after")
    places = [make_place(name, trails) for name in names]
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(render_page(make_report(versions, places)), encoding="utf-8")
    return file


@pytest.fixture(autouse=True)
def _no_error_and_no_request(browser: Browser, page: Path) -> Iterator[None]:
    yield
    assert [one for one in browser.get_log("browser") if one["level"] in ("SEVERE", "WARNING")] == []
    assert {address.partition("#")[0] for address in browser.read_requests()} <= {page.as_uri(), "about:blank"}
    assert browser.driver.title != "broken"


def test_the_keyboard_moves_the_scrubber_and_nodes_stay_where_they_are(browser: Browser, page: Path) -> None:
    browser.show(page)
    assert "rejected" in browser.find("#version").text
    before = browser.find("g[aria-label^='plan']").get_attribute("transform")
    browser.find("#scrub").send_keys(Keys.ARROW_LEFT)
    assert "accepted" in browser.find("#version").text
    assert browser.find("g.added").get_attribute("aria-label") == "check, new"
    assert browser.find("g.rewritten")
    assert browser.find("path.way.removed")
    assert browser.find("g[aria-label^='plan']").get_attribute("transform") == before
    assert browser.run("location.hash") == "#version=1"


def test_an_agent_shows_its_prompt_by_click_and_by_key(browser: Browser, page: Path) -> None:
    browser.show(page, "#version=1")
    browser.click("g[aria-label^='check'] .box")
    assert "Work 1." in browser.find("#agent").text
    browser.find("g[tabindex='0']").send_keys(Keys.ENTER)
    assert HOSTILE in browser.find("#agent").text
    assert browser.run("location.hash") == "#version=1&agent=plan"


def test_an_edit_shows_its_reason_and_what_a_prompt_gained(browser: Browser, page: Path) -> None:
    browser.show(page, "#version=1")
    assert "rewrite prompt proposed by plan" in browser.find("#version summary").text
    assert HOSTILE in browser.find("#version .gained").text


def test_a_task_opens_from_its_cell_from_the_list_and_from_its_address(browser: Browser, page: Path) -> None:
    browser.show(page)
    browser.click(".row svg .cell.wrong")
    assert "Task wrong" in browser.find("#trail h3").text
    assert HOSTILE in browser.find("#trail").text
    browser.show(page, "#task=broken&at=0/gate/candidate")
    assert "the provider is down" in browser.find("#trail").text
    browser.find("#pick-task option[value='0']").click()
    assert "Task right" in browser.find("#trail h3").text
    assert browser.run("location.hash") == "#task=right&at=0/gate/candidate"
    browser.show(page, "#task=nobody")
    assert "There is no task nobody" in browser.find("#trail").text


def test_states_of_tasks_look_different(browser: Browser, page: Path) -> None:
    browser.show(page)
    assert {one.tag_name for one in browser.driver.find_elements(By.CSS_SELECTOR, ".row .error")} == {"path"}
    fills = [browser.find(f".row .cell.{state}").value_of_css_property("fill") for state in ("right", "wrong")]
    assert fills[0] != fills[1] == "none"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1600])
def test_nothing_keeps_people_from_reading_it(browser: Browser, page: Path, width: int, scheme: str) -> None:
    from axe_core_python.selenium import Axe

    browser.show(page, "#version=1&agent=plan", width=width, scheme=scheme)
    browser.find("#pick-task option[value='1']").click()
    assert browser.find("#trail h3")
    browser.take(f"page-{scheme}-{width}")
    assert browser.run("document.documentElement.scrollWidth") <= width
    found = Axe().run(browser.driver)["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert serious == [], json.dumps([(one["id"], [node["html"] for node in one["nodes"]]) for one in serious])
