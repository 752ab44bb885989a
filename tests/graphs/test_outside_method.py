"""The method of docs/method.md, as a package of somebody else's, and packages that are not so well made."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langgraph_sdk import get_sync_client

from selfwire.core.errors import ConfigError
from selfwire.core.values import FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.graphs import method_names, method_registry
from selfwire.graphs.descriptor import MethodDescriptor
from selfwire.graphs.single_run import SingleRunMethod
from selfwire.runtime.embeddings import HashingEmbedder
from selfwire.runtime.metered import MeteredModel
from selfwire.runtime.offline.model import OfflineChat
from selfwire.runtime.sync import run_sync
from selfwire.runtime.workflow_library import open_library
from tests.graphs.dev_server import ROOT, dev_server
from tests.processes import start, start_selfwire, wait_for

PAGE = (ROOT / "docs" / "method.md").read_text()
FILE = re.compile(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = [line for line in PAGE.splitlines() if line.startswith("selfwire ")]
PYTHON = re.compile(r"From Python:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = {
    "run": "hands on to checker, searcher, writer (every successor)",
    "evolve": "selfwire show prune-archive",
    "compare": "prune         ",
    "ablate": "| a random edge |",
}
"""What a command prints when it has worked."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    for name, text in FILE.findall(PAGE):
        (folder / name).write_text(text)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    installed = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    [(group, points)] = project["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    return folder


def run_python(package: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=package,
        env=environment(package),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment(package: Path) -> dict[str, str]:
    return {**os.environ, **search_path(package), "SELFWIRE_HOME": str(package / "home")}


def search_path(package: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])}


def run_command(package: Path, line: str) -> str:
    printed, errors = wait_for(start_selfwire(*shlex.split(line)[1:], cwd=package, env=environment(package)))
    assert "RuntimeWarning" not in errors
    return printed


def test_the_page_is_short() -> None:
    assert sum(len(block.strip().splitlines()) for block in BLOCK.findall(PAGE)) < 150


def test_its_name_is_listed_without_importing_it(package: Path) -> None:
    code = "import sys; from selfwire.graphs.method_names import method_names; print(method_names(), *sys.modules)"
    printed = run_python(package, code)
    assert "'gepa', 'prune')" in printed
    assert "prune_method" not in printed
    assert "langgraph" not in printed


def test_it_is_built_and_invoked(package: Path) -> None:
    [code] = PYTHON.findall(PAGE)
    (package / "from_python.py").write_text(code)
    process = start("tests.processes:run_python", "from_python.py", cwd=package, env=environment(package))
    assert "unknown" in wait_for(process)[0]


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_takes_it(package: Path, line: str) -> None:
    shown = "dry run of prune on archive" if "--dry-run" in line else SHOWN[line.split()[1]]
    assert shown in run_command(package, line)


@pytest.mark.slow
def test_it_evolves(package: Path) -> None:
    [line] = [one for one in COMMANDS if one.startswith("selfwire evolve") and "--dry-run" not in one]
    printed = run_command(package, f"{line.replace('--gate-tasks 2', '--gate off')} --name thinner")
    assert "from prune_method import DESCRIPTOR as prune" in printed
    with open_library(package / "home") as library:
        evolved = run_sync(library.load("thinner"))
    assert evolved.method == "prune"
    assert len(evolved.topology.edges) == 6 - 2
    with open_library(package / "home") as library:
        history = run_sync(library.history("thinner"))
    assert len(history.versions) == 3


@pytest.mark.slow
def test_it_is_served(package: Path, tmp_path: Path) -> None:
    served = package / "langgraph.json"
    with (
        dev_server(tmp_path / "cwd", tmp_path / "home", served, **search_path(package)) as address,
        get_sync_client(url=address) as client,
    ):
        drawn = client.assistants.get_graph("prune", xray=True)["nodes"]
        assert {"team:planner", "team:searcher", "team:checker", "team:writer"} <= {str(node["id"]) for node in drawn}
        context = {"prompt_writer": "Say nothing but the answer."}
        state: Any = client.runs.wait(None, "prune", input={"question": "What am I?"}, context=context)
        assert state["answer"]
        ran = Workflow.model_validate(state["workflow"])
        assert ran.agents_by_id["writer"].prompt == context["prompt_writer"]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:

    def forget() -> None:
        for found in (method_names.method_names, method_names.outside_methods):
            found.cache_clear()
        method_registry.installed_methods.cache_clear()
        method_registry._load_outside.cache_clear()

    def installed(*points: tuple[str, str]) -> None:
        found = [EntryPoint(name, value, method_names.GROUP) for name, value in points]
        monkeypatch.setattr(method_names, "entry_points", lambda group: found if group == method_names.GROUP else [])
        forget()

    yield installed
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize(
    ("points", "complaint"),
    [
        ([("other", "nowhere_at_all:X")], "method 'other' .* cannot be imported: ModuleNotFoundError"),
        ([("other", "json:nothing")], "cannot be imported: AttributeError"),
        ([("other", "json:dumps")], "is a function, no MethodDescriptor; name one in group selfwire.methods"),
        (
            [("other", "json:dumps"), ("other", "csv:reader")],
            "csv:reader and json:dumps are both called method 'other'",
        ),
        ([("an other", "json:dumps")], "a method's name has up to 64 letters"),
    ],
)
def test_a_package_that_cannot_be_used(install: Any, points: list[tuple[str, str]], complaint: str) -> None:
    install(*points)
    name = points[0][0]
    assert name in method_names.method_names()
    with pytest.raises(ConfigError, match=complaint):
        method_registry.describe_method(name)
    with pytest.warns(RuntimeWarning, match=complaint):
        installed = method_registry.installed_methods()
    assert [one.name for one in installed] == [*method_names.own_methods(), *method_names.CONTESTANTS]


def test_a_descriptor_that_says_another_name(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("bare_method")
    module.DESCRIPTOR = MethodDescriptor(
        name="bare", summary="does nothing", make=SingleRunMethod, config=method_registry.describe_method("hiva").config
    )
    monkeypatch.setitem(sys.modules, "bare_method", module)
    install(("bare", "bare_method:DESCRIPTOR"), ("bald", "bare_method:DESCRIPTOR"))
    assert method_registry.describe_method("bare") is module.DESCRIPTOR
    with pytest.raises(ConfigError, match="is the descriptor of 'bare'; give its entry point"):
        method_registry.describe_method("bald")


def test_own_methods_cannot_be_replaced(install: Any) -> None:
    install(("hiva", "json:dumps"), ("gepa", "json:dumps"))
    assert method_names.method_names() == (*method_names.own_methods(), *method_names.CONTESTANTS)
    assert method_registry.describe_method("hiva").name == "hiva"
    assert method_registry.describe_method("gepa").name == "gepa"


def test_an_unknown_method_is_told_the_others(install: Any) -> None:
    install(("other", "json:dumps"))
    with pytest.raises(ConfigError, match=r"unknown method 'hivva'; methods are dytopo, .*, aflow, gepa, other"):
        method_registry.describe_method("hivva")


def test_a_descriptor_has_a_full_variant_and_options_of_build() -> None:
    given: Any = {"name": "bare", "summary": "", "make": SingleRunMethod, "config": dict}
    with pytest.raises(ConfigError, match="method bare: variants need 'full'"):
        MethodDescriptor(**given, variants={})
    with pytest.raises(ConfigError, match="build_options are of corpus, embedder, grader, judge"):
        MethodDescriptor(**given, build_options=frozenset({"bread"}))


class Unset(FrozenModel):
    """A config that cannot be made without a value."""

    width: int


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"config": dict}, "method bare: config is a subclass of FrozenModel, context one of RunContext"),
        ({"config": Unset}, "method bare: its config needs defaults for width"),
        ({"rounds": "laps"}, "method bare: rounds names no field of its config: laps"),
    ],
)
def test_a_descriptor_with_a_config_that_cannot_be_used(changes: dict[str, Any], complaint: str) -> None:
    given: Any = {"name": "bare", "summary": "", "make": SingleRunMethod, "config": FrozenModel, **changes}
    with pytest.raises(ConfigError, match=complaint):
        MethodDescriptor(**given)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: None, "method 'bare' cannot be made of model, tools, embedder and config: .*4 were given"),
        (lambda *given: "a method", "what makes method 'bare' gives a str, which is no Method"),
        (method_registry.describe_method("hiva").make, "method 'bare' calls itself 'hiva'; give class and descriptor"),
    ],
)
def test_what_makes_no_method_of_its_name_is_refused(
    install: Any, monkeypatch: pytest.MonkeyPatch, make: Any, complaint: str
) -> None:
    module: Any = ModuleType("bare_method")
    config = method_registry.describe_method("hiva").config
    module.DESCRIPTOR = MethodDescriptor(name="bare", summary="", make=make, config=config)
    monkeypatch.setitem(sys.modules, "bare_method", module)
    install(("bare", "bare_method:DESCRIPTOR"))
    model = MeteredModel(OfflineChat())
    with pytest.raises(ConfigError, match=complaint):
        method_registry.make_method("bare", model=model, toolbox={}, embedder=HashingEmbedder())
