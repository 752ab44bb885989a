"""Pages in a real browser, without a network: what a click shows, errors, requests, and what axe-core finds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from selfwire.extras.pages.page import render_page
from tests.extras.pages.browser import Browser, needs_browser
from tests.extras.pages.samples import make_place, make_report, make_trail, make_version

pytestmark = [
    pytest.mark.slow,
    needs_browser,
]
HOSTILE = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"


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
    browser.check_quiet(page)
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
    browser.show(page, "#version=1&agent=plan", width=width, scheme=scheme)
    browser.find("#pick-task option[value='1']").click()
    assert browser.find("#trail h3")
    browser.take(f"page-{scheme}-{width}")
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.check_access()
