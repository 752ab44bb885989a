import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from langchain_core.tools import tool

from selfwire.core.errors import ConfigError
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.tools.calculator import CalculatorTool
from selfwire.tools.ready import READY, absolute_names, load_tools


@tool
def shout(text: str) -> str:
    """Says it loudly."""
    return text.upper()


SOME = [shout]
BY_NAME = {"loud": shout}


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    path = tmp_path / "sales.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE sales (day TEXT)")
    return path


def test_tools_are_loaded_by_name(sales: Path) -> None:
    found = load_tools(f"calculator, convert_units,algebra,sql:{sales},{__name__}:shout")
    assert list(found) == ["calculator", "convert_units", "algebra", "sql", "shout"]
    assert list(load_tools(f"{__name__}:SOME")) == list(load_tools(f"{__name__}:BY_NAME")) == ["shout"]
    assert all(name == make().spec.name for name, make in READY.items())


def test_several_sql_files_are_named_after_their_files(sales: Path) -> None:
    costs = sales.rename(sales.with_name("costs 2.sqlite"))
    sales.write_bytes(costs.read_bytes())
    assert list(load_tools(f"sql:{sales},sql:{costs}")) == ["sql_sales", "sql_costs_2"]
    with pytest.raises(ConfigError, match="two tools are called 'sql_sales'"):
        load_tools(f"sql:{sales},sql:{sales}")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("saw", "there is no tool 'saw'; name calculator, convert_units"),
        ("", "there is no tool ''"),
        ("calculator,", "there is no tool ''"),
        ("sql:", "there is no tool 'sql:'; name calculator"),
        ("../x:y", "tools '../x:y': .*; name calculator"),
        ("selfwire.tools.algebra:AlgebraTool", "is type; name calculator"),
        ("sql:none.sqlite", "there is no file 'none.sqlite'"),
        ("calculator,calculator", "two tools are called 'calculator'"),
        ("json:JSONDecoder", "is type; name"),
        ("json:nothing", "^tools 'json:nothing': json has no 'nothing'; it has dump, dumps"),
        ("no.such.module:x", "No module named"),
    ],
)
def test_a_name_that_means_no_tool_is_refused(names: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_tools(names)


def test_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_names("calculator, sql:a b.sqlite") == f"calculator,sql:{tmp_path / 'a b.sqlite'}"


def test_own_tasks_are_lent_tools(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"input": "2 + 2?", "reference": "4"}\n')
    bench = load_benchmark(str(tasks), tools="calculator")
    assert isinstance(bench.toolbox["calculator"], CalculatorTool)
    assert bench.tools == ("calculator",)
    with pytest.raises(ConfigError, match="--tools calculator is for tasks of your own"):
        load_benchmark("archive", tools="calculator")
