"""Sentences of pages, locked and held to rows and code: the repository's own, and what a falsified one is told."""

import json
import random
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from selfwire.core.errors import ConfigError
from selfwire.evolvers import gate
from selfwire.extras.lab import result_pages
from selfwire.extras.lab.result_pages import check_pages, fill_page
from tests import claims
from tests.claims import check_claims, digest, list_locked_pages, lock_claims

ROOT = Path(__file__).parents[1]
TEXT = """# Results

One agent scores 0.25, and HiVA gains +0.63 [+0.51, +0.76] on it. The price of a call is at most 0.05.

<!-- table: systems rows=rows/compare-archive.jsonl against=single -->
<!-- end of table -->

HiVA beats a single agent, at fewer calls. It is no faster.

<!-- claims
0.25 = {single | score}
+0.63 [+0.51, +0.76] = {hiva | difference}
"at most" 0.05 = {selfwire.evolvers.gate:SIMPLER_PRICE}
"HiVA beats a single agent" {hiva | difference} above 0 and {hiva | score} > 2 * {single | score}
"at fewer calls" {compare-archive | hiva | calls/task} < {single | calls/task}
"no faster" is not measured
-->

## Sizes

<!-- measured 0123abc, make bench -->

| what | MB |
|---|---|
| all | 121 |

The first run is left out. It takes 4 tasks (`--tasks 4`), half of 8. See Sec. 3.4 and [a page](x-17.md).

<!-- given: 8 -->
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "tests" / "fixtures" / "rows", tmp_path / "docs" / "rows")
    (page := tmp_path / "docs" / "page.md").write_text(TEXT)
    page.write_text(fill_page(page))
    lock_claims([page], tmp_path / "docs" / "claims.lock")
    return page


def check(page: Path) -> list[str]:
    return [one.text for one in check_claims([page], page.parent / "claims.lock")]


def lock(page: Path) -> list[str]:
    return lock_claims([page], page.parent / "claims.lock")


def test_a_page_whose_claims_are_bound_and_locked_has_no_differences(page: Path) -> None:
    assert check(page) == []
    assert lock(page) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scores 0.25", "scores 0.35"),
        ("[+0.51, +0.76] on", "[+0.51, +0.75] on"),
        ("at most 0.05", "at least 0.05"),
        ("fewer calls. It", "more calls. It"),
        ("no faster", "faster"),
        ("# Sizes", "# Fewer sizes"),
        ("| all | 121 |", "| all | 112 |"),
        ("half of 8", "twice 8"),
        ("The first run", "The last run"),
        ("Sec. 3.4", "Sec. 3.5"),
    ],
)
def test_a_claim_that_is_falsified_is_found(page: Path, old: str, new: str) -> None:
    page.write_text(page.read_text().replace(old, new))
    assert any(text.startswith("not locked") for text in check(page))
    assert any(text.startswith("locked, and on the page no more") for text in check(page))


def test_rewording_what_claims_nothing_is_free(page: Path) -> None:
    page.write_text(page.read_text().replace("## Sizes", "## Sizes\n\nHere they stand.\n"))
    assert check(page) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("scores 0.25", "scores 0.35", "the text does not say '0.25'"),
        ("0.25 = {single", "0.35 = {single", "it is {single | score} [0.25, 0.16, 0.37]"),
        ("0.51, +0.76] = ", "0.51, +0.75] = ", "it is {hiva | difference} [0.63, 0.51, 0.76]"),
        ("{hiva | difference} above 0", "{hiva | difference} below 0", "it is {hiva | difference}"),
        ("{hiva | difference} above 0", "{hiva | difference} not told from 0", "it is {hiva | difference}"),
        ("> 2 * {single", "> 4 * {single", "it is {hiva | score}"),
        ("calls/task} < {", "calls/task} > {", "it is {compare-archive | hiva | calls/task}"),
        ("gate:SIMPLER_PRICE", "gate:MOST_PRICE", "it is {selfwire.evolvers.gate:MOST_PRICE} [0.25]"),
        ("gate:SIMPLER_PRICE", "gate:NOTHING", "is no number of the code"),
        ("= {single | score}", "= {double | score}", "names 0 cells, and not one"),
        ("> 2 * {single", "> 2 @ {single", "cannot be computed"),
        ('"no faster" is not measured', "{hiva | score} > 0", "a line has a number and ="),
        ("{hiva | score} >", "{hiva | score} / 0 >", "cannot be computed"),
        ("{hiva | difference} above", "{hiva | calls/task} above", "the cell has no interval"),
        ('"no faster" is not', '"no slower" is not', "the text does not say 'no slower'"),
        ('"no faster" is not measured', "", "a comparison without a relation: It is no faster."),
        ("0.25 = {single | score}", "", "no source of 0.25: One agent"),
        ("<!-- given: 8 -->", "", "no source of 8: It takes 4 tasks"),
        ("half of 8", "half of 4", "given: the text does not say 8"),
        ("<!-- given: 8 -->", "<!-- given: 8 seven -->", "given: the text does not say seven"),
        ("The first run is", "```\nmake\n```\n\nThe first 16 runs are", "no source of 16: The first 16 runs"),
        ("It takes 4", "<!-- paper hiva [page] -->\n\nAll:\n\n| D1 | 16 | - |\n\nIt takes 4", "no source of 16: | D1"),
        (
            "It takes 4",
            "<!-- paper hiva [page] -->\n\nAll:\n\n| 3.4 | k = 17 | - |\n\nIt takes 4",
            "no source of 17: | 3.4",
        ),
        ("| all | 121 |", "| all | +0.05 [+0.01, +0.15] |", "cannot be: +0.05 [+0.01, +0.15]: | all"),
        ("| all | 121 |", "| all | 0.30 [0.31, 0.40] |", "cannot be: 0.30 [0.31, 0.40]: | all"),
        ("| all | 121 |", "| all | 17 of 16 |", "cannot be: 17 of 16: | all"),
        ("| all | 121 |", "| all | 3.4 to 2.5 |", "cannot be: 3.4 to 2.5: | all"),
        ("<!-- measured 0123abc, make bench -->", "", "no source of 121: | all | 121 |"),
        ("<!-- measured 0123abc, make bench -->", "<!-- measured often -->", "no source of 121: | all | 121 |"),
    ],
)
def test_a_claim_that_does_not_follow_is_found_although_it_is_locked(page: Path, old: str, new: str, told: str) -> None:
    page.write_text(page.read_text().replace(old, new))
    lock(page)
    assert [text for text in check(page) if told in text]


def test_changed_rows_and_changed_code_are_found(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "SIMPLER_PRICE", 0.2)
    assert any("SIMPLER_PRICE} [0.2]" in text for text in check(page))
    monkeypatch.undo()
    rows = page.parent / "rows" / "compare-archive.jsonl"
    head, *lines = map(json.loads, rows.read_text().splitlines())
    for line in lines:
        line["scores"] = [0.0] * len(line["scores"]) if line["info"]["name"] == "hiva" else line["scores"]
    rows.write_text("\n".join(map(json.dumps, (head, *lines))))
    assert [one.where for one in check_pages([page])] == ["tables"]
    page.write_text(fill_page(page))
    assert any('"HiVA beats a single agent"' in text for text in check(page))


def test_stars_compare_all_rows(page: Path) -> None:
    def told(relation: str) -> list[str]:
        page.write_text(text.replace('"no faster" is not measured', f'"no faster" {relation}'))
        return check(page)

    text = page.read_text()
    assert told("{* | errors} <= 0") == []
    assert told("{* | calls/task} <= 30 and {*e | score} < {hiva | score}") == []
    assert len(told("{* | calls/task} < 30")) == 1
    assert "rows" in told("{* | score} < {*e | score}")[0]


def test_a_hint_names_the_cells_with_the_number(page: Path) -> None:
    page.write_text(page.read_text() + "\nTacoMAS scores 14,831.\n")
    assert not any("tokens/task" in text for text in check(page))
    page.write_text(page.read_text().replace("It is no faster.", "It is no faster. TacoMAS reads 14,831 tokens."))
    [text] = [text for text in check(page) if text.startswith("no source of 14,831: TacoMAS reads")]
    assert text.endswith("14,831 = {tacomas | tokens/task}")


def test_a_lock_that_cannot_be_read_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`python -m tests.claims --lock` writes it"):
        list_locked_pages(tmp_path / "claims.lock")


def test_the_command_checks_and_locks(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def invoke(*arguments: str) -> tuple[int, str]:
        return claims.main(arguments), capsys.readouterr().out

    monkeypatch.chdir(page.parents[1])
    assert invoke() == (0, "1 pages, 0 differences\n")
    page.write_text(page.read_text().replace("half of 8", "twice 8"))
    code, said = invoke()
    assert code == 1
    assert "not locked: It takes 4 tasks (`--tasks 4`), twice 8." in said
    assert invoke("--lock") == (0, "locked: It takes 4 tasks (`--tasks 4`), twice 8.\n1 pages, 0 differences\n")
    assert digest("It takes 4 tasks (`--tasks 4`), twice 8.") in (page.parent / "claims.lock").read_text()
    assert invoke() == (0, "1 pages, 0 differences\n")
    page.write_text(page.read_text().replace("| single | 0.25 ", "| single | 0.26 "))
    assert "docs/page.md, tables:" in invoke()[1]
    page.write_text(fill_page(page).replace("scores 0.25", "scores 0.35"))
    code, said = invoke("--lock")
    assert code == 1
    assert "the text does not say '0.25'" in said


Make = Callable[[Path, Mapping[str, str]], str]


@pytest.fixture(scope="module")
def checked() -> tuple[dict[str, Make], list[str]]:
    """Tables of our pages, computed once as rows do not change here, nor comments that name them; and all faults."""
    tables = {kind: _keep(make) for kind, make in result_pages.TABLES.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(result_pages, "TABLES", tables)
        return tables, check_repository(ROOT)


@pytest.fixture
def faults(checked: tuple[dict[str, Make], list[str]], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Faults of our pages; for this test alone tables are the ones on record, as others change rows."""
    monkeypatch.setattr(result_pages, "TABLES", checked[0])
    return checked[1]


def _keep(make: Make) -> Make:
    kept: dict[object, str] = {}

    def make_once(page: Path, given: Mapping[str, str]) -> str:
        key = (page.name, *given.items())
        kept[key] = kept[key] if key in kept else make(page, given)
        return kept[key]

    return make_once


def check_repository(root: Path, changed: Sequence[Path] = ()) -> list[str]:
    """Faults of all pages; tables are computed anew only on pages that were changed, if these are given."""
    pages = list_locked_pages(root / "docs" / "claims.lock")
    found = check_pages(changed or pages) + check_claims(pages, root / "docs" / "claims.lock")
    return [f"{one.page.name}, {one.where}: {one.text}" for one in found]


def test_every_claim_of_our_pages_is_locked_and_follows(faults: list[str]) -> None:
    assert faults == []
    pages = [
        ROOT / "README.md",
        ROOT / "SECURITY.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs" / "papers").glob("*.md")),
    ]
    assert {*list_locked_pages(ROOT / "docs" / "claims.lock")} == {*pages}


PAIRS = (
    "more/less fewer/more better/worse best/worst faster/slower most/least higher/lower larger/smaller longer/shorter "
    "above/below never/always no/every nothing/everything all/none half/twice third/quarter not/certainly without/with "
    "ahead/behind earlier/later beats/trails gains/loses two/three four/five newer/older easier/harder cheaper/dearer "
    "first/last before/after single/double cannot/can"
)
OPPOSITES = {word: other for pair in PAIRS.split() for word, other in (pair.split("/"), pair.split("/")[::-1])}


def falsify(text: str, chance: random.Random) -> str:
    """A page of which one digit, or one comparing word, says something else: outside code and what no reader sees."""
    unseen = [match.span() for match in re.finditer(r"^```.*?^```|`[^`]*`|<!--.*?-->", text, re.DOTALL | re.MULTILINE)]
    words = rf"\d|\b(?:{'|'.join(OPPOSITES)})\b"
    places = [
        match
        for match in re.finditer(words, text, re.IGNORECASE)
        if not any(start <= match.start() < end for start, end in unseen)
    ]
    place = chance.choice(places)
    old = place[0]
    new = OPPOSITES[old.lower()] if old.isalpha() else chance.choice([digit for digit in "0123456789" if digit != old])
    return text[: place.start()] + new + text[place.end() :]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(15))
def test_a_falsified_digit_or_comparison_anywhere_is_found(seed: int, faults: list[str], tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for page in ("README.md", "SECURITY.md"):
        shutil.copy(ROOT / page, tmp_path)
    chance = random.Random(seed)
    pages = list_locked_pages(tmp_path / "docs" / "claims.lock")
    chosen = chance.choices(pages, [len(page.read_text()) for page in pages])[0]
    chosen.write_text(falsify(chosen.read_text(), chance))
    assert {*check_repository(tmp_path, [chosen])} - {*faults}
