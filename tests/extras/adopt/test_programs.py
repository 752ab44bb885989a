"""The inventories of programs written as their authors would: every node, edge, tool, model and text."""

import ast
import inspect
import logging
import re
import shutil
import textwrap
from pathlib import Path

import pytest

from selfwire.extras.adopt.page import Inventory, format_inventory
from selfwire.extras.adopt.reader import read_program
from tests.extras.adopt.corpus import GRAPHS, MOST, count_added, find_folder, format_added, list_lines, read_expected

NOISE = textwrap.dedent(
    """
    import logging, warnings
    logging.getLogger("noise").info("noise in a log message about %s", "noise in its argument")
    noise = {"noise as a key": ["noise in a list", ("noise in a tuple", 1)], "noise url": "https://noise.example/path"}
    noise["noise item"] = f"noise in an f-string {len(noise)}"
    if not noise:
        raise ValueError("noise in an error: " + noise["noise url"])
    warnings.warn("noise in a warning") if "noise in a test" in noise else None
    assert noise, "noise in an assertion"
    """
)
"""Statements whose texts reach no model."""
LISTED = ("nodes", "edges", "interrupts", "subgraphs", "agents", "tools", "models", "values", "texts", "opaque")
SENT_BACK = ("ironmonger",)
"""Programs that send back what any error of a tool says."""


def read(program: str) -> Inventory:
    return read_program(GRAPHS[program])


@pytest.fixture(scope="module", params=GRAPHS)  # of a module: else all programs are read anew for the next test
def program(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def inventory(program: str) -> Inventory:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(find_folder(program))
        return read(program)


def test_an_inventory_has_all_and_nothing_else(
    program: str, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(find_folder(program))
    assert list(list_lines(inventory)) == read_expected(program)


def test_the_place_of_a_text_is_that_of_its_literal(
    program: str, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(find_folder(program))
    for text in inventory.texts:
        lines = Path(text.file).read_text(encoding="utf-8").splitlines()[text.line - 1 : text.end_line]
        if not text.file.endswith(".py"):
            words = " ".join(" ".join(lines).split())  # a folded block of YAML joins its lines
            assert all(" ".join(part.split()) in words for piece in text.pieces for part in piece.split("\n"))
            continue
        lines[-1] = lines[-1][: text.end_column]
        lines[0] = lines[0][text.column :]
        literal = ast.parse("(" + "\n".join(lines) + ")", mode="eval").body
        found = [node.value for node in ast.walk(literal) if isinstance(node, ast.Constant)]
        whole = "".join(str(part) for part in found)
        whole = whole.replace("$$", "$")
        forms = (whole, whole.upper(), inspect.cleandoc(whole), textwrap.dedent(whole), " ".join(whole.split()))
        for form in forms:
            if all(line in form for piece in text.pieces for line in piece.splitlines() if "{" not in form):
                break
        else:
            pytest.fail(f"{text.file}:{text.line} {text.pieces} is not {whole!r}")


def test_a_page_names_every_text_in_a_line(inventory: Inventory) -> None:
    lines = format_inventory(inventory).splitlines()
    assert sum(line.startswith("  ") for line in lines) == sum(len(getattr(inventory, kind)) for kind in LISTED)
    for text in inventory.texts:
        assert any(line.split()[:1] == [f"{text.file}:{text.line}"] for line in lines)


class NoiseMaker(ast.NodeTransformer):
    """Adds statements to every function, after its docstring."""

    def __init__(self, noise: str) -> None:
        self.noise = noise

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        at = 1 if ast.get_docstring(node) is not None else 0
        node.body[at:at] = ast.parse(self.noise).body
        return node


def test_what_reaches_no_model_is_no_text(
    program: str, inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / program
    shutil.copytree(find_folder(program), folder)
    monkeypatch.chdir(folder)
    noise = NOISE.replace("raise ValueError", "logging.info") if program in SENT_BACK else NOISE
    for path in folder.rglob("*.py"):
        tree = NoiseMaker(noise).visit(ast.parse(path.read_text(encoding="utf-8")))
        path.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")
    assert sorted(text.pieces for text in read(program).texts) == sorted(text.pieces for text in inventory.texts)


def test_most_programs_need_no_added_line_and_nearly_all_a_few_at_most() -> None:
    added = [*count_added().values()]
    assert len(added) >= 160
    assert sum(not count for count in added) >= 0.8 * len(added)
    assert sum(count <= MOST for count in added) >= 0.95 * len(added)
    page = Path(__file__).parents[3] / "docs" / "bring.md"
    assert format_added() in page.read_text(encoding="utf-8").splitlines()
    opened = [line for program in GRAPHS for line in read_expected(program) if line.startswith("opaque ")]
    assert all(re.match(r"opaque \S+:\d+ .+; .+", line) for line in opened)  # the reason, and the way out


def test_a_text_that_is_also_compared_with_is_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(find_folder("signals"))
    texts = {text.name: text for text in read("signals").texts}
    assert texts["APPROVED"].signal == "compared at review.py:31"
    assert texts["ASK_AGAIN"].signal == "compared at review.py:18"
    assert [text.keeps for text in read("signals").texts if text.kind == "f-string"] == [("REJECTED",)]


def test_a_program_is_neither_imported_nor_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "effects"
    shutil.copytree(find_folder("import_effects"), folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(logging, "info", None)
    before = {path.name for path in folder.iterdir()}
    assert [node.name for node in read("import_effects").nodes] == ["chat"]
    assert {path.name for path in folder.iterdir()} == before == {"effects.py"}
