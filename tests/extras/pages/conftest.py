from collections.abc import Iterator

import pytest

from tests.extras.pages.browser import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser that reaches no host."""
    found = Browser()
    yield found
    found.driver.quit()
