"""Sentences of our pages, held to the rows and the code that they speak of: `python -m tests.claims [--lock]`.

A claim is a sentence, a heading or a row of a table that holds a number, a comparing word or a word for an order,
outside blocks of code and computed tables. A lock lists a digest of each, so that no claim changes unseen. And each
number of a claim needs a source in its section:

    <!-- claims                                       computed anew:
    +0.47 [+0.25, +0.68] = {random edits | full − variant}
    0.05 = {selfwire.evolvers.gate:SIMPLER_PRICE}
    "eight times" 8 = {full | calls/task} / {seed team | calls/task}
    "beats random edits" {random edits | full − variant} above 0
    "A likely reason" is a guess
    -->
    <!-- given: 3.11 -->                              sizes, settings, figures of others
    <!-- measured COMMIT, command: 0.93 0.87 -->      by hand, at that commit
    <!-- paper hiva: 0.6 -->                          in a paper

`{ROW | COLUMN}` is a cell of a computed table of the section, `{FILE | ROW | COLUMN}` of any whose rows are in FILE.
ROW is the first cell, or the first two joined by a comma; `*` stands for any text, and so for several rows. Of a study
`{VARIANT, seed N | after}` is a seed's score. `{module:name}` is a value of the code: a constant, the default of a
field or of a parameter, or the length of a collection. A relation compares two expressions, or says of a cell with an
interval that it is `above 0`, `below 0` or `not told from 0`; ` and ` joins several. Words in quotes stand in the text.

Where a section has computed tables, every sentence after them that compares holds the words of such a line; `is` says
why there is nothing to compute. A list without numbers covers the paragraph or table after it. `<!-- paper hiva [page]
-->` says that rows of the page begin with a place in that paper, which needs no source. What a list has, words for
numbers too (`four`), the text says. Numbers in the section's code and parameters of its worlds need no source.
"""

import hashlib
import inspect
import math
import operator
import re
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from selfwire.core.errors import ConfigError, ToolError
from selfwire.extras.lab.ablation.rows import read_study
from selfwire.extras.lab.result_pages import CODE, TABLE, Mismatch, check_pages, read_page
from selfwire.extras.lab.worlds.catalogue import load_world
from selfwire.tools.calculator import calculate

LOCK = Path("docs/claims.lock")
_COMPARING = re.compile(
    r"\b(?:more|fewer|less|better|best|worse|worst|faster|slower|higher|highest|lower|lowest|smaller|smallest|larger|"
    r"largest|cheaper|cheapest|longer|longest|shorter|earlier|later|newer|older|easier|harder|greater|closer|closest|"
    r"stronger|weaker|sooner|quicker|further|most|least|than|as (?:\w+ )?as|same|equal|equally|level|above|below|"
    r"under|over|ahead|behind|never|always|no|not|none|nothing|nobody|neither|nor|without|all|every|each|everybody|only|"
    r"alone|both|few|many|much|little|almost|hardly|half|twice|thirds?|quarters?|times|once|two|three|four|five|six|seven|"
    r"eight|nine|ten|twelve|twenty|beats?|gains?|lose|loses|helps?|costs?|worth|grows?|rises?|falls?|hurts?|effects?)\b",
    re.IGNORECASE,
)
_ORDERING = re.compile(r"\b(?:first|second|last|before|after|single|cannot)\b", re.IGNORECASE)
_FIGURE = re.compile(r"(?<![\w.,])[+\-−]?\d+(?:,\d{3})*(?:\.\d+)?(?!\w|[.,]\d)")
_NO_FIGURE = re.compile(
    r"`[^`]*`|\]\([^)]*\)|https?://\S+|arXiv [\d.]+|^\s*\d+\. |\b95 %|\b20\d\d\b|\b(?:from|not) 0\b|"
    r"\b(?:Secs?|Sections?|Eqs?|Figs?|Tables?|Algs?|Algorithm|App|Listings?)\.? "
    r"[A-Z]?[\d.]+(?:(?:,| and| to| or) [A-Z]?[\d.]+)*",
    re.MULTILINE,
)
_NUMBER = r"[+\-−]?\d+(?:,\d{3})*(?:\.\d+)?"
_SHARE = re.compile(r"(?<![\w.,])(\d+(?:,\d{3})*) of (\d+(?:,\d{3})*)(?![\w,.]\d)")
_RANGE = re.compile(rf"(?<!from )(?<![\w.,\-])({_NUMBER}) to ({_NUMBER})\b")
_INTERVAL = re.compile(rf"({_NUMBER}) \[({_NUMBER}), ({_NUMBER})\]")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_MARK = re.compile(
    r"<!-- (claims|code|given|measured [0-9a-f]{7,}, [^:>]+|paper \w+[^:>]*)(?:: *| *\n|(?= -->))(.*?)\s*-->", re.DOTALL
)
_LINE = re.compile(r'(?:"(?P<words>[^"]+)" )?(?:is (?P<reason>.+)|(?P<left>[^={}"]+) = (?P<right>.+)|(?P<relation>.+))')
_SENTENCES = re.compile(r"(?:(?<=[.!?])|(?<=[.!?]\*\*))(?<!^\d\.) (?=[A-Z\"`*(\[])")
_CELL = re.compile(r"\{([^{}]+)\}")
_BY_INTERVAL: Mapping[str, Callable[[float, float], bool]] = {
    "above 0": lambda low, high: low > 0,
    "below 0": lambda low, high: math.copysign(1, high) < 0,  # -0.00 is a little below 0
    "not told from 0": lambda low, high: low <= 0 <= high and math.copysign(1, high) > 0,
}
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class _TableCell(NamedTuple):
    """A cell of a computed table: files of its rows, names of its row, its column, its text."""

    files: Sequence[str]
    rows: Sequence[str]
    column: str
    text: str


@dataclass(frozen=True)
class _Section:
    """A section of a page: its text, code reduced to its numbers, and its computed tables."""

    page: Path
    key: str
    text: str
    cells: Sequence[_TableCell]
    rows_begin_with_places: bool

    def list_claims(self, start: int = 0) -> Iterator[tuple[str, bool]]:
        """Claims from a place of the text on, and whether a mark before the paragraph covers all of it."""
        covered = False
        for block in re.split(r"\n\s*\n", _COMMENT.sub(r"\n\n\g<0>\n\n", TABLE.sub("\n\n", self.text[start:]))):
            if block.lstrip().startswith("<!--"):
                mark = _MARK.fullmatch(block.strip())
                covered = mark is not None and not mark[2] and mark[1] not in ("claims", "code")
            elif block.strip():
                for claim in _split_block(block):
                    yield claim, covered
                covered = False

    @cached_property
    def prose(self) -> str:
        """The text that a reader sees outside code and computed tables."""
        return " ".join(_COMMENT.sub(" ", TABLE.sub(" ", self.text)).split())

    def list_lines(self) -> list[str]:
        """Lines of the section's marks that are computed."""
        marks = [listed for kind, listed in _MARK.findall(self.text) if kind == "claims"]
        return [line.strip() for listed in marks for line in listed.splitlines() if line.strip()]

    def list_bound(self) -> set[str]:
        """Numbers that have a source."""
        code = [text.replace("=", " ") for text in re.findall(r"`[^`]+`", self.text)]
        settings = [figure for match in TABLE.finditer(self.text) for figure in _list_settings(match[2], match[3])]
        percent = [f"{100 * float(figure):g}" for figure in settings]
        listed = [listed for kind, listed in _MARK.findall(self.text) if kind != "claims"]
        lines = [mark["left"] or "" for mark in map(_LINE.fullmatch, self.list_lines()) if mark]
        return {*_list_figures("\n".join((*code, *settings, *percent, *listed, *lines)))}


def main(arguments: Sequence[str] | None = None) -> int:
    """Check tables and claims of the pages below this folder, if asked after locking the claims; print what differs."""
    parser = ArgumentParser(prog="python -m tests.claims", description="Check tables and claims of the pages here.")
    parser.add_argument("--lock", action="store_true", help="first lock the claims as they stand, and print new ones")
    if parser.parse_args(arguments).lock:
        named = [
            Path("README.md"),
            Path("SECURITY.md"),
            *sorted(Path("docs").glob("*.md")),
            *sorted(Path("docs/papers").glob("*.md")),
        ]
        locked = list_locked_pages(LOCK) if LOCK.exists() else []
        for claim in lock_claims([*dict.fromkeys((*locked, *filter(Path.exists, named)))], LOCK):
            print(f"locked: {claim}")  # noqa: T201
    pages = list_locked_pages(LOCK)
    found = [*check_pages(pages), *check_claims(pages, LOCK)]
    for fault in found:
        print(f"{fault.page}, {fault.where}:\n{fault.text}\n")  # noqa: T201
    print(f"{len(pages)} pages, {len(found)} differences")  # noqa: T201
    return bool(found)


def check_claims(pages: Sequence[Path], lock: Path) -> list[Mismatch]:
    """Claims on the pages that differ from the lock, lack a source or do not follow from the tables as they stand.

    Raises:
        ConfigError: a page or the lock cannot be used.
    """
    sections = [section for page in pages for section in _read_sections(page, lock)]
    cells = [cell for section in sections for cell in section.cells]
    locked, there = _read_lock(lock), _list_digests(sections)
    found: list[Mismatch] = []
    for section in sections:
        known = locked.get(section.key, [])
        texts = [*_list_broken(section, cells), *_list_unsaid(section)]
        texts += [*_list_unbound(section), *_list_unrelated(section), *_list_impossible(section)]
        texts += [f"not locked: {claim}" for claim, _ in section.list_claims() if digest(claim) not in known]
        found += [Mismatch(section.page, f"section {section.key!r}", text) for text in texts]
    for key, known in locked.items():
        if gone := [claim for claim in known if claim not in there.get(key, ())]:
            found.append(Mismatch(lock, f"section {key!r}", f"locked, and on the page no more: {', '.join(gone)}"))
    return found


def lock_claims(pages: Sequence[Path], lock: Path) -> list[str]:
    """Write the digests of all claims of the pages into the lock; claims that it did not have.

    Raises:
        ConfigError: as `check_claims`.
    """
    sections = [section for page in pages for section in _read_sections(page, lock)]
    known = {claim for claims in (_read_lock(lock) if lock.exists() else {}).values() for claim in claims}
    lines = [f"{key}: {' '.join(digests)}\n" for key, digests in _list_digests(sections).items() if digests]
    lock.write_text("".join(lines), encoding="utf-8")
    return [claim for section in sections for claim, _ in section.list_claims() if digest(claim) not in known]


def list_locked_pages(lock: Path) -> list[Path]:
    """Pages whose claims the lock lists.

    Raises:
        ConfigError: the lock cannot be read.
    """
    return [lock.parents[1] / page for page in dict.fromkeys(key.partition(" # ")[0] for key in _read_lock(lock))]


def digest(claim: str) -> str:
    """Six hexadecimal digits that change with every letter of a claim."""
    return hashlib.sha256(claim.encode()).hexdigest()[:6]


def _list_digests(sections: Sequence[_Section]) -> dict[str, list[str]]:
    """Digests of claims, by the page and the title of their section."""
    found: dict[str, list[str]] = {}
    for section in sections:
        found.setdefault(section.key, []).extend(digest(claim) for claim, _ in section.list_claims())
    return found


def _read_lock(lock: Path) -> dict[str, list[str]]:
    try:
        lines = lock.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the lock {lock} cannot be read: {error}; `python -m tests.claims --lock` writes it"
        ) from None
    return {key: digests.split() for key, _, digests in (line.rpartition(": ") for line in lines)}


def _read_sections(page: Path, lock: Path) -> Iterator[_Section]:
    root = lock.resolve().parents[1]
    if not page.resolve().is_relative_to(root):
        raise ConfigError(f"the page {page} does not lie in {root}, whose claims {lock} locks")
    text = CODE.sub(lambda code: f"<!-- code: {' '.join(_list_figures(code[0]))} -->\n", read_page(page))
    places = re.search(r"<!-- paper \w+ \[page\] -->", text) is not None
    for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        cells = [cell for match in TABLE.finditer(part) for cell in _read_table(page, match)]
        title = part.partition("\n")[0].strip("# ")
        key = f"{page.resolve().relative_to(root).as_posix()} # {title}"
        yield _Section(page, key, part, cells, places)


def _split_block(block: str) -> Iterator[str]:
    """Sentences, headings and rows that claim something."""
    for item in re.split(r"\n(?=\s*(?:[-*#]+ |\||\d+\. ))", block):
        line = " ".join(item.split())
        for claim in [line] if line.startswith("|") else _SENTENCES.split(line):
            plain = re.sub(r"`[^`]*`", "", claim)
            if re.search(r"\d", plain) or _COMPARING.search(plain) or _ORDERING.search(plain):
                yield claim


def _read_table(page: Path, table: re.Match[str]) -> Iterator[_TableCell]:
    """Cells of a table, numbers of the lines around it, and of a study the score of each seed."""
    files = re.findall(r"([\w-]+)\.jsonl", table[3]) or [table[2]]
    lines = table[4].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("|")]
    head: Sequence[str] = ()
    for row, following in pairwise([*rows, [""]]):
        if following[-1].startswith("--"):
            head = row
        elif not row[-1].startswith("--"):
            yield from (_TableCell(files, (row[0], ", ".join(row[:2])), *cell) for cell in zip(head, row, strict=True))
    for words in re.split(r"[,;.]\s", "\n".join(line for line in lines if not line.startswith("|"))):
        yield _TableCell(files, ("text",), " ".join(_FIGURE.sub(" ", words).split()), words)
    if table[2] == "ablation":
        for measured in read_study(page.parent / re.findall(r"rows=(\S+)", table[3])[0])[1]:
            yield _TableCell(files, (f"{measured.variant}, seed {measured.seed}",), "after", f"{measured.after}")


def _list_settings(kind: str, options: str) -> list[str]:
    """Numbers among the parameters of a world whose table this is."""
    if kind != "world":
        return []
    given = dict(part.split("=", 1) for part in options.split())
    return re.findall(r"\d+(?:\.\d+)?", load_world(given["method"], given["name"]).parameters.model_dump_json())


def _list_figures(text: str) -> list[str]:
    """Written numbers, without signs."""
    return [found.strip("+-−") for found in _FIGURE.findall(text)]


def _list_broken(section: _Section, everywhere: Sequence[_TableCell]) -> Iterator[str]:
    """Lines of marks that the text does not say, or that are not so."""
    for line in section.list_lines():
        mark = _LINE.fullmatch(line)
        said = mark and (mark["words"] or mark["left"])
        if not mark or not said:
            yield f"{line}: a line has a number and =, or words in quotes and a relation"
            continue
        if not re.search(rf"(?<![\w.+\-−]){re.escape(said)}(?!\w|[.,]\d)", section.prose):
            yield f"{line}: the text does not say {said!r}"
        try:
            fault = "" if mark["reason"] else _find_fault(mark, section.cells, everywhere)
        except ConfigError as error:
            fault = str(error)
        if fault:
            yield f"{line}: {fault}"


def _list_unsaid(section: _Section) -> Iterator[str]:
    """Marks that list a number, or a word for one, which their section does not say."""
    said = {*_list_figures(section.prose), *re.findall(r"[\w/]+", section.prose.lower())}
    for kind, listed in _MARK.findall(section.text):
        words = listed.split() if kind not in ("claims", "code") else ()
        if unsaid := [word for word in words if word.strip("+-−") not in said]:
            yield f"{kind}: the text does not say {', '.join(unsaid)}"


def _list_unbound(section: _Section) -> Iterator[str]:
    """Claims with a number that has no source, and the cells that have it."""
    bound = section.list_bound()
    for claim, covered in section.list_claims():
        said = re.sub(r"^\|[^|]*", "", claim) if section.rows_begin_with_places else claim
        lost = [figure for figure in _list_figures(_NO_FIGURE.sub(" ", said)) if figure not in bound]
        if lost and not covered:
            cells = [cell for cell in section.cells if (_list_figures(cell.text) or [""])[0] in lost]
            hints = "".join(f"\n    {cell.text} = {{{cell.rows[0]} | {cell.column}}}" for cell in cells)
            yield f"no source of {', '.join(lost)}: {claim}{hints}"


def _list_impossible(section: _Section) -> Iterator[str]:
    """Claims with more of a few than there are, with a range that falls, or with an estimate outside its interval.

    Intervals of signed differences are Student's, so the estimate is their middle but for the rounding of all three.
    """
    for claim, _ in section.list_claims():
        plain = re.sub(r"`[^`]*`", "", claim)
        found = [match[0] for match in _SHARE.finditer(plain) if _read_numbers(match[1]) > _read_numbers(match[2])]
        found += [match[0] for match in _RANGE.finditer(plain) if _read_numbers(match[1]) >= _read_numbers(match[2])]
        for match in _INTERVAL.finditer(plain):
            middle, low, high = (_read_numbers(written)[0] for written in match.groups())
            digits = len(match[1].partition(".")[2])
            off = match[1][0] in "+-−" and abs(middle - (low + high) / 2) > 1.01 * 10**-digits
            found += [match[0]] if off or not low <= middle <= high else []
        if found:
            yield f"cannot be: {', '.join(found)}: {claim}"


def _list_unrelated(section: _Section) -> Iterator[str]:
    """Claims after computed tables that compare, and have no line with words of theirs."""
    ends = [match.end() for match in TABLE.finditer(section.text)]
    quoted = [mark["words"] for mark in map(_LINE.fullmatch, section.list_lines()) if mark and mark["words"]]
    for claim, _ in section.list_claims(ends[-1]) if ends else ():
        if _COMPARING.search(re.sub("`[^`]*`", "", claim)) and not any(words in claim for words in quoted):
            yield f"a comparison without a relation: {claim}"


def _find_fault(mark: re.Match[str], here: Sequence[_TableCell], everywhere: Sequence[_TableCell]) -> str:
    """Cells of a line of a mark that is not so; nothing if it is."""
    for part in re.split(r" and (?![^{]*\})", mark["relation"] or mark["right"]):
        names = _CELL.findall(part)
        columns = [_read_cells(name, here, everywhere) for name in names]
        rows = max([1, *map(len, columns)])
        if any(len(column) not in (1, rows) for column in columns):
            raise ConfigError(f"{part} compares {' and '.join(str(len(column)) for column in columns)} rows")
        for at in range(rows):
            cells = [column[at if len(column) > 1 else 0] for column in columns]
            if not _holds(mark["left"], part, names, cells):
                return f"it is {'; '.join(f'{{{name}}} {cell}' for name, cell in zip(names, cells, strict=True))}"
    return ""


def _holds(left: str | None, part: str, names: Sequence[str], cells: Sequence[Sequence[float]]) -> bool:
    """Check a relation, or that written numbers are what an expression gives."""
    alone = re.fullmatch(rf"(-?){_CELL.pattern}( {'| '.join(_BY_INTERVAL)})?", part)
    if alone and alone[3]:
        if len(cells[0]) < 3:
            raise ConfigError("the cell has no interval")
        return _BY_INTERVAL[alone[3].strip()](*cells[0][1:3])
    formula = part
    for name, cell in zip(names, cells, strict=True):
        formula = formula.replace(f"{{{name}}}", f"({cell[0]!r})", 1)
    if left is None:
        return bool(_compute(formula))
    given: Sequence[float] = cells[0] if alone and not alone[1] else [_compute(formula)]
    if alone and alone[1]:
        given = [-cells[0][0], *(-number for number in reversed(cells[0][1:3]))]
    written = [(float(figure.replace(",", "")), len(figure.partition(".")[2])) for figure in _FIGURE.findall(left)]
    return len(written) <= len(given) and all(
        abs(number - true) <= 0.5 * 10**-digits + 1e-9 for (number, digits), true in zip(written, given, strict=False)
    )


def _read_cells(name: str, here: Sequence[_TableCell], everywhere: Sequence[_TableCell]) -> list[list[float]]:
    """Numbers of the cells that a mark names, or of a value of the code.

    Raises:
        ConfigError: there is none, or there are several.
    """
    parts = [part.strip() for part in name.split(" | ")]
    if len(parts) == 1:
        return [[_read_value(name)]]
    *files, row, column = parts
    pool = [cell for cell in everywhere if files[0] in cell.files] if files else here
    if "*" in row:
        pool = [cell for cell in pool if any(fnmatchcase(name, row) for name in cell.rows)]
    else:
        pool = [cell for cell in pool if row in cell.rows]
    pool = [cell for cell in pool if _FIGURE.search(cell.text)]
    named = [cell.text for cell in pool if column in (cell.column, cell.column.partition(" [")[0])]
    named = named or [cell.text for cell in pool if cell.column.startswith(column)]
    if "*" not in row:
        named = [*dict.fromkeys(named)]
    if not named or ("*" not in row and len(named) > 1):
        raise ConfigError(f"{{{name}}} names {len(named)} cells, and not one: {'; '.join(named)}")
    return [_read_numbers(text) for text in named]


def _read_numbers(text: str) -> list[float]:
    return [float(figure.replace(",", "").replace("−", "-")) for figure in _FIGURE.findall(text)]


def _read_value(name: str) -> float:
    """A constant, the default of a field or of a parameter, or the length of a collection, by `module:name`."""
    try:
        module, _, path = name.partition(":")
        value: Any = import_module(module)
        for part in path.split("."):
            if isinstance(value, Mapping):
                value = value[part]
            elif inspect.isfunction(value):
                value = inspect.signature(value).parameters[part].default
            elif isinstance(value, type) and issubclass(value, BaseModel):
                value = value.model_fields[part].default if part in value.model_fields else getattr(value, part)
            else:
                value = getattr(value, part)
        return float(len(value) if isinstance(value, Sized) else value)
    except (ImportError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{{{name}}} is no number of the code: {error!r}") from None


def _compute(formula: str) -> float:
    """A sum, a product or a comparison of numbers."""
    left, sign, right = re.fullmatch(r"([^<>]*)(?:([<>]=?)(.*))?", formula, re.DOTALL).groups()  # type: ignore[union-attr]
    try:
        return float(_OPERATORS[sign](calculate(left), calculate(right)) if sign else calculate(left))
    except ToolError as error:
        raise ConfigError(f"{formula!r} cannot be computed: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
