"""What the docs name exists."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from selfwire.cli.commands import FILE
from selfwire.core.plugins import GROUP, own_methods
from selfwire.graphs.build import GraphOptions
from selfwire.graphs.method import FULL, OPTIONS, find_method
from tests.docs.blocks import PAGES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TESTS = {path.relative_to(ROOT): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
ROOMS = "graphs|nodes|evolvers|tools|evals|src|bench"
LINK = re.compile(r"(?<!!)\[[^]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"(?<![\w/])selfwire(?:\.[A-Za-z_]\w*)+")
IMPORTED = re.compile(r"^\s*from (selfwire[\w.]*) import ([\w, ]+)", re.MULTILINE)


def names(page: str) -> Iterator[str]:
    """Dotted names of ours on a page, those of import lines included."""
    text = (DOCS / page).read_text()
    yield from NAMED.findall(text)
    for module, imported in IMPORTED.findall(text):
        yield from (f"{module}.{name.split(' as ')[0].strip()}" for name in imported.split(","))


def find(name: str) -> object:
    """The module or attribute of a dotted name."""
    module, _, attribute = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return getattr(find(module), attribute)


@pytest.mark.parametrize("method", own_methods())
def test_every_ablation_has_a_row_that_says_what_it_switches_off(method: str) -> None:
    table = (DOCS / "evaluation.md").read_text().partition("### Ablations")[2].partition("\n#")[0]
    heads = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    mine = " ".join(head for head in heads if method in head)
    named = set(re.findall(r"`([\w-]+)`", mine))
    for first, last in re.findall(r"`([\w-]+)` to `([\w-]+)`", mine):
        stem, width = first.rstrip("0123456789"), len(first) - len(first.rstrip("0123456789"))
        named |= {name for number in range(10**width) if first <= (name := f"{stem}{number:0{width}}") <= last}
    assert named >= find_method(method).variants.keys() - {FULL}


@pytest.mark.parametrize("method", own_methods())
def test_the_page_of_the_interface_has_the_options_of_each_graph(method: str) -> None:
    [said] = re.findall(rf"`selfwire\.graphs\.{method}\.build\((.*?)\)`", (DOCS / "api.md").read_text())
    named = re.findall(r"(?:^|, )(\w+)", said)
    unused = OPTIONS - find_method(method).build_options
    assert {*named} == {"model", "tools", *GraphOptions.__annotations__} - unused


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_every_name_of_ours_can_be_imported(page: str) -> None:
    for name in sorted(set(names(page)) - {GROUP, FILE}):
        assert find(name) is not None, name


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        file, _, anchor = link.partition("#")
        if not link.startswith(("http:", "https:")):
            target = page.parent / file if file else page
            assert target.exists(), link
            assert not anchor or anchor in find_anchors(target), link


def find_anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them in links."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_tests_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    for path in re.findall(rf"(?<![\w/.])(?:tests|{ROOMS})/[\w/]+\.py\b", text):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"`(test_\w+)(?:…)?`", text):
        assert any(f"def {name}" in code for code in TESTS.values()), name
    for file in re.findall(r"`(test_\w+\.py)`", text):
        written = f"`{file}`:" in text  # the page says what stands in it
        assert written or any(path.name == file for path in TESTS), file
