"""What the nodes of EvoMAS's graph do with models and tools. It never receives a task."""

from dataclasses import dataclass, field
from functools import cached_property

from selfwire.core.agent import Agent
from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ModelError
from selfwire.core.protocols import AgentRunner, Embedder, Model, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.pool import METHOD
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.graphs.own_tools import add_own_tools
from selfwire.graphs.prompts import load_prompts
from selfwire.nodes.agent import make_agent_runner
from selfwire.nodes.ensemble import make_ensemble_runner


@dataclass(frozen=True)
class EvomasActions:
    """EvoMAS wired to a model (in the roles agent, meta for the planner and judge), tools and an embedder."""

    model: Model
    toolbox: Toolbox
    embedder: Embedder
    config: EvomasConfig = field(default_factory=EvomasConfig)

    @cached_property
    def meta_model(self) -> PromptedModel:
        """Planner and evaluator with EvoMAS's prompts."""
        return PromptedModel(self.model, load_prompts("evolvers", METHOD), self.config.temperature)

    def make_runners(self, pool: Workflow) -> dict[str, AgentRunner]:
        """How agents act, by kind."""
        temperature = self.config.temperature
        return {
            "worker": make_agent_runner(self.model, add_own_tools(self.toolbox, pool), temperature=temperature),
            "ensemble": make_ensemble_runner(self.model, load_prompts("nodes"), temperature=temperature),
        }

    async def verify_answer(self, pool: Workflow, question: Question, outcome: str, scope: Scope) -> tuple[str, Usage]:
        """Look up an outcome's claims with all tools that the pool holds; "" where that fails or there is no tool."""
        tools = tuple(dict.fromkeys(tool for agent in pool.agents for tool in agent.tools))
        if not tools:
            return "", Usage()
        agent = Agent(id="verifier", prompt=load_prompts("evolvers", METHOD).text("verify").strip(), tools=tools)
        inbox = (Message(source="workflow", target=agent.id, text=outcome),)
        try:
            step = await self.make_runners(pool)["worker"](agent, question, inbox, scope=scope.at(node=agent.id))
        except ModelError as error:
            return "", get_error_cost(error)
        return step.output, step.usage

    def describe_tools(self, pool: Workflow) -> str:
        """The tools that the pool holds, one line each."""
        names = dict.fromkeys(tool for agent in pool.agents for tool in agent.tools)
        there = add_own_tools(self.toolbox, pool)
        specs = [there[name].spec for name in names if name in there]
        return "\n".join(f"{spec.name}: {spec.description}" for spec in specs) or "(none)"
