"""A real browser without a network, and what people with other eyes and hands would meet in a page."""

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

SHOTS = Path(__file__).parents[3] / ".screenshots"
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs `apt-get install chromium chromium-driver`")


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

    def check_access(self) -> None:
        """Fail where axe-core finds a serious fault in the page as it stands."""
        from axe_core_python.selenium import Axe

        found = Axe().run(self.driver)["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert serious == [], json.dumps([(one["id"], [node["html"] for node in one["nodes"]]) for one in serious])

    def check_quiet(self, *pages: Path) -> None:
        """Fail where the console has a fault, or more was asked for than these pages, since the last time."""
        assert [one for one in self.get_log("browser") if one["level"] in ("SEVERE", "WARNING")] == []
        asked = {address.partition("#")[0] for address in self.read_requests()}
        assert asked <= {*(page.as_uri() for page in pages), "about:blank"}
