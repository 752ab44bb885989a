"""A headless Chromium that reaches no host, and how fast pages are in it."""

import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.measuring import Row

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
ROUNDS = 5
_PAINT = """
const done = arguments[0];
const isFirst = (one) => one.name === "first-contentful-paint";
const look = (list) => list.getEntries().filter(isFirst).forEach((one) => done(one.startTime));
new PerformanceObserver(look).observe({ type: "paint", buffered: true });
"""
_STEPS = """
const scrub = document.getElementById("scrub"), times = [];
for (let version = Number(scrub.max); version >= 0; version--) {
  const since = performance.now();
  scrub.value = version;
  scrub.dispatchEvent(new Event("input", { bubbles: true }));
  document.body.getBoundingClientRect(); // the layout too
  times.push(performance.now() - since);
}
return times;
"""


def explain_missing() -> str:
    """Name the part that is missing to drive a browser; "" if none is."""
    if find_spec("selenium") is None:
        return "selenium is not installed"
    return "" if CHROMIUM and DRIVER else "needs `apt-get install chromium chromium-driver`"


def start_chromium(host: str = "", logs: Mapping[str, str] | None = None) -> "Chrome":
    """A headless Chromium that reaches no host, or only the one that is given.

    Args:
        logs: levels of its logs, by their names.
    """
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    rules = "MAP * ~NOTFOUND" + (f", EXCLUDE {host}" if host else "")
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", f"host-resolver-rules={rules}"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", dict(logs or {}))
    return webdriver.Chrome(options=options, service=Service(str(DRIVER)))


def measure_in_browser(pages: Mapping[str, Path]) -> list[Row]:
    """First paint of pages, and a step of their scrubbers; in words where there is no browser.

    Args:
        pages: by what they show.
    """
    if missing := explain_missing():
        return [Row(what=f"{what}: in Chromium", note=f"skipped: {missing}") for what in pages]
    driver = start_chromium()
    try:
        return [row for what, page in pages.items() for row in _measure_page(driver, what, page)]
    finally:
        driver.quit()


def _measure_page(driver: Any, what: str, page: Path) -> list[Row]:
    driver.set_script_timeout(60)
    paints, steps = [], []
    for _ in range(ROUNDS):
        driver.get("about:blank")
        driver.get(page.as_uri())
        paints.append(driver.execute_async_script(_PAINT))
        steps += driver.execute_script(_STEPS)
    return [
        Row(what=f"{what}: first paint in Chromium", value=median(paints) / 1e3, unit="s", bound=1),
        Row(what=f"{what}: a step of the scrubber", value=median(steps), unit="ms", bound=100),
    ]
