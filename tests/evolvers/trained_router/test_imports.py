"""torch is imported only when a head is built."""

import subprocess
import sys

PROGRAM = """
import asyncio, importlib, pkgutil, sys
import selfwire.graphs, selfwire.evolvers.evomas, selfwire.cli.app
for package in (selfwire.graphs, selfwire.evolvers.evomas):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name != "selfwire.evolvers.trained_router.head":
            importlib.import_module(module.name)
from selfwire.evolvers.trained_router.choosers import FixedChooser, RandomChooser
from selfwire.evolvers.trained_router.config import SamplingConfig
from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
pool = (Agent(id="a", prompt="a"), Agent(id="b", prompt="b"))
for chooser in (RandomChooser(SamplingConfig()), FixedChooser([["a"]])):
    asyncio.run(chooser(["row"], pool, masked=frozenset(), scope=Scope()))
print("torch" in sys.modules)
from selfwire.evolvers.trained_router.reinforce import Learner
import selfwire.evolvers.trained_router.head
print("torch" in sys.modules)
"""


def test_graphs_choosers_and_commands_leave_torch_alone_until_a_head_is_built() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
