"""Single changes of a tool's source: each differs in one place, is legal, and can be undone by another."""

import ast
from collections.abc import Callable

import pytest

from selfwire.core.own_tool import check_tool_source
from selfwire.evals.benchmarks.tariffs import TARIFFS
from selfwire.tools.tool_mutations import find_mutations, list_mutations


@pytest.mark.parametrize("name", TARIFFS)
def test_each_change_is_legal_and_can_be_undone(name: str) -> None:
    source = TARIFFS[name].source
    changed = list_mutations(source)
    assert len(changed) == len(set(changed)) > 10
    assert source not in changed
    for one in changed:
        assert check_tool_source(one) == check_tool_source(source)
        assert source in list_mutations(one)


def test_operators_bounds_numbers_and_names_change() -> None:
    changed = list_mutations("def tool_function(n: int):\n    return min(n, 5) < 3 + n\n")
    for part in ("max(n, 5)", "min(n, 6)", "min(n, 4)", "min(n, 15)", "<= 3", "> 3", "3 - n", "3 * n"):
        assert any(part in one for one in changed), part
    assert list_mutations("def tool_function(n: int):\n    return n\n") == ()


def test_a_source_is_built_only_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    built = list[ast.AST]()

    def unparse(tree: ast.AST, write: Callable[[ast.AST], str] = ast.unparse) -> str:
        built.append(tree)
        return write(tree)

    monkeypatch.setattr("ast.unparse", unparse)
    source = TARIFFS[min(TARIFFS)].source
    found = find_mutations(source)
    assert (len(found) > 10, built) == (True, [])
    assert found[3].make_source() == list_mutations(source)[3]
    assert len(built) == 1 + len(found)
