"""Docs/papers: every statement has its place or its reason, and what the pages name exists."""

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from selfwire.graphs.method import find_method
from tests.test_docs import DOCS, find

FOLDER, TESTS = DOCS / "papers", Path(__file__).parent
PAGES = sorted(path.stem for path in FOLDER.glob("[a-z]*.md"))
ROOMS = "core|store|models|nodes|evolvers|tools|graphs|evals|runs|cli|extras"
PLACE = re.compile(rf"`((?:{ROOMS})(?:\.[A-Za-z_]\w*)+)`")
TEST = re.compile(r"`(test_\w+)`")
VERDICT = re.compile(r"faithful|D\d|open|theory|not done|claim")
MORE = {"evomas": ("router",)}
"""Packages whose departures stand on a method's page too."""

of_every_page = pytest.mark.parametrize("page", PAGES)


@cache
def read(page: str) -> str:
    return (FOLDER / f"{page}.md").read_text(encoding="utf-8")


def rows(page: str) -> Iterator[list[str]]:
    """Cells of the rows of all tables, without their heads."""
    for line in read(page).splitlines():
        if line.startswith("|") and not set(line) <= set("|-: "):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def declared(page: str) -> set[str]:
    """Departures that the docstrings of a method list."""
    texts = [import_module(f"selfwire.evolvers.{name}").__doc__ or "" for name in (page, *MORE.get(page, ()))]
    return {number for text in texts for number in re.findall(r"^ +(D\d+) ", text, re.MULTILINE)}


@cache
def written_tests() -> frozenset[str]:
    sources = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    return frozenset(name for text in sources for name in re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE))


@of_every_page
def test_every_place_exists(page: str) -> None:
    places = set(PLACE.findall(read(page)))
    assert len(places) > 20
    for place in sorted(places):
        assert find(f"selfwire.{place}") is not None, place


@of_every_page
def test_every_test_exists(page: str) -> None:
    assert set(TEST.findall(read(page))) - written_tests() == set()


@of_every_page
def test_every_statement_has_a_verdict(page: str) -> None:
    statements = [row for row in rows(page) if row[0] != "paper" and not re.fullmatch(r"D\d+|departure", row[0])]
    assert len(statements) > 50
    assert [row for row in statements if len(row) != 4 or not VERDICT.match(row[3])] == []


def read_number(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.strip(".").split(".")))


def list_misplaced(text: str) -> list[str]:
    """Places of rows that come before the place above them, or outside the sections that their heading names."""
    found: list[str] = []
    sections: list[tuple[int, ...]] = []
    last: dict[str, tuple[int, ...]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            numbers = re.sub(r"Algorithm \d|Appendi.*|\b[A-J][\d.]+", "", line)
            sections, last = [*map(read_number, re.findall(r"\d[\d.]*", numbers))], {}
        match = re.match(r"\| (Alg\. |Eq\. |Listing )?(\d[\d.]*)(?:, (\d+))?(?=[ ,-])", line)
        if match:
            kind, number = match[1] or "section", read_number(match[2])
            step = (int(match[3]),) if kind == "Alg. " and match[3] else ()
            lost = kind == "section" and not (
                sections and sections[0] <= number and number[: len(sections[-1])] <= sections[-1]
            )
            if lost or (*number, *step) < last.get(kind, ()):
                found.append(line.split(" | ")[0].strip("| "))
            last[kind] = (*number, *step)
    return found


@of_every_page
def test_places_of_rows_stand_in_the_papers_order_below_headings_that_name_their_sections(page: str) -> None:
    assert list_misplaced(read(page)) == []


@pytest.mark.parametrize("moved", ["4.1", "3.2", "32", "Alg. 1, 9", "Eq. 2"])
def test_a_place_in_the_wrong_section_or_order_is_found(moved: str) -> None:
    rows = ["## Sections 3.3 and 3.4: loops", "| 3.3 | a |", "| Alg. 1, 8 | b |", "| Eq. 1 | c |", "| 3.4 | d |"]
    after = ["| 3.4.1 | e |", "| Alg. 1, 8-9 | f |", "| Eq. 1, 10 | g |"]
    assert list_misplaced("\n".join((*rows, *after))) == []
    assert list_misplaced("\n".join((*rows, f"| {moved} | moved |", *after))) != []


@of_every_page
def test_every_departure_is_listed_with_a_test_that_is_named_after_it(page: str) -> None:
    listed = {row[0]: row[-1] for row in rows(page) if re.fullmatch(r"D\d+", row[0])}
    assert set(listed) == declared(page)
    assert [
        n for n, cell in listed.items() if not any(t.startswith(f"test_{n.lower()}_") for t in TEST.findall(cell))
    ] == []
    assert find_method(page).departures == f"D1-D{max(int(number[1:]) for number in listed)}"
    assert set(re.findall(r"\bD\d+\b", read(page))) >= set(listed)
