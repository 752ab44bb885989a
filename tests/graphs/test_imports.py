"""Heavy packages are imported only by what needs them, and may be absent: one process shows it all, as LangGraph is
slow to start."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys

def report(*names):
    print(*sorted(set(names) & set(sys.modules)))

import contextlib, io
from selfwire.cli.app import build
from selfwire.cli.commands import COMMANDS, load_command
with contextlib.redirect_stdout(io.StringIO()) as help:
    build()(["--help"], standalone_mode=False)
assert all(f"  {name} " in help.getvalue() for name in COMMANDS), help.getvalue()
print(*sorted(name for name in sys.modules if name.startswith("selfwire.")))
report("asyncio", "langchain_core", "langgraph", "langsmith", "numpy", "pydantic", "rich")
with contextlib.redirect_stdout(io.StringIO()):
    build()(["version"], standalone_mode=False)
report("langchain_core", "langgraph", "langsmith", "numpy")

import asyncio, importlib, pkgutil
from importlib.machinery import PathFinder

class WithoutTorch(PathFinder):
    @classmethod
    def find_spec(cls, name, *place):
        large = ("torch", "sentence_transformers", "transformers")
        return None if name.partition(".")[0] in large else super().find_spec(name, *place)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutTorch
from selfwire.graphs import hiva
hiva.build(model="offline").compile().invoke({"question": "What am I?"})
report("sentence_transformers", "plancraft", "openai", "networkx", "numpy", "scipy", "selfwire.graphs.evomas")

from selfwire.core.errors import ConfigError
from selfwire.graphs import dytopo, evomas, hera, tacomas
from selfwire.models.embeddings import MiniLMEmbedder
def ask(method, **options):
    return method.build("offline", **options).compile().invoke({"question": "What am I?"})
print(*(method.__name__[16:] for method in (hera, tacomas, dytopo) if ask(method)["answer"]))
for needs_more in (MiniLMEmbedder, lambda: ask(evomas)):
    try:
        needs_more()
    except ConfigError as error:
        print(error)

from selfwire.evals.benchmarks.catalogue import load_benchmark
for name in ("gsm8k", "bbh", "math500", "deepresearcher", "workbench"): load_benchmark(name)
report("torch", "sympy", "math_verify", "pandas", "plancraft")

import selfwire.graphs, selfwire.evolvers.evomas
for name in COMMANDS: load_command(name)
for package in (selfwire.graphs, selfwire.evolvers.evomas):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name != "selfwire.evolvers.router.head":
            importlib.import_module(module.name)
from selfwire.evolvers.router.choosers import FixedChooser, RandomChooser
from selfwire.evolvers.router.config import SamplingConfig
from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
pool = (Agent(id="a", prompt="a"), Agent(id="b", prompt="b"))
for chooser in (RandomChooser(SamplingConfig()), FixedChooser([["a"]])):
    asyncio.run(chooser(["row"], pool, scope=Scope()))
report("torch")

from selfwire.evolvers.evomas.config import EvomasConfig
for adapter in ("random", "fixed", "learned"):  # the last one builds a head
    graph = evomas.build("offline", config=EvomasConfig(adapter=adapter, stages=1), embedder="hashing").compile()
    graph.get_graph(xray=True)
    report("torch")
    if adapter == "learned":
        sys.meta_path[sys.meta_path.index(WithoutTorch)] = PathFinder
    graph.invoke({"question": "What am I?"})
    report("torch")
"""
EXPECTED = {  # heavy modules after each step
    "help imports of selfwire": "selfwire.cli selfwire.cli.app selfwire.cli.commands",
    "help is shown": "",
    "the version is shown": "",
    "hiva is built and asked": "",
    "others are asked": "hera tacomas dytopo",
    "MiniLM is loaded": (
        "the embedder minilm needs sentence-transformers, which is not installed: pip install sentence-transformers"
    ),
    "evomas is asked": "the trained router needs torch, which is not installed: pip install torch",
    "benchmarks are named": "",
    "all of graphs, choosers and commands is imported": "",
    "a random adapter is built": "",
    "a random adapter is asked": "",
    "a fixed adapter is built": "",
    "a fixed adapter is asked": "",
    "a learned adapter is built": "",
    "a learned adapter is asked": "torch",
}


@pytest.mark.slow
def test_heavy_packages_are_imported_only_by_what_needs_them() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert dict(zip(EXPECTED, done.stdout.splitlines(), strict=True)) == EXPECTED
