"""What the nodes of TacoMAS's graph do with models and tools. It never receives a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from selfwire.core.agent import MEMORY_NOTES, Agent
from selfwire.core.protocols import AgentRunner, Model, Tool, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Step, Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.initial_team import METHOD
from selfwire.evolvers.tacomas.messages import weigh_messages
from selfwire.evolvers.tacomas.slow import name_nodes
from selfwire.graphs.agent_node import TeamContext
from selfwire.graphs.own_tools import add_own_tools
from selfwire.graphs.prompts import load_prompts
from selfwire.graphs.team import run_team
from selfwire.nodes.agent import make_agent_runner


@dataclass(frozen=True)
class TacomasActions:
    """TacoMAS with its models and tools."""

    model: Model
    toolbox: Toolbox
    config: TacomasConfig = field(default_factory=TacomasConfig)

    @cached_property
    def meta_model(self) -> PromptedModel:
        """The meta-model and the judge with TacoMAS's prompts."""
        return PromptedModel(self.model, load_prompts("evolvers", METHOD), self.config.temperature)

    async def round(
        self,
        workflow: Workflow,
        question: Question,
        *,
        weights: Mapping[str, float],
        notes: Mapping[str, Sequence[str]],
        carried: Sequence[Message] = (),
        scope: Scope,
    ) -> Trajectory:
        """Run the team once, with each agent's refinements in its memory and its inbox weighed (D1).

        Args:
            scope: coordinates of the round; `visit` is its number.
        """
        agents = dict(workflow.agents_by_id)
        for name, kept in notes.items():  # the oldest notes go where there are too many
            agents[name] = agents[name].replace(memory=(*agents[name].memory, *kept)[-MEMORY_NOTES:])
        run = TeamContext.of(workflow, question, scope, self._make_weighing_runner(workflow, weights), agents=agents)
        return await run_team(workflow.topology, run, carried=carried)

    def list_offered_tools(self, workflow: Workflow) -> dict[str, Tool]:
        """Tools that newborns may hold: those that the initial team holds."""
        held = {tool for agent in workflow.agents for tool in agent.tools}
        return {name: tool for name, tool in sorted(add_own_tools(self.toolbox, workflow).items()) if name in held}

    def _make_weighing_runner(self, workflow: Workflow, weights: Mapping[str, float]) -> AgentRunner:
        tools = add_own_tools(self.toolbox, workflow)
        act = make_agent_runner(self.model, tools, temperature=self.config.temperature)
        by_node = {node: weights.get(agent, 0.0) for node, agent in workflow.topology.agents.items()}
        names = name_nodes(workflow)

        async def act_on_weighed(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
            read = weigh_messages(inbox, by_node, self.config.fast.inbox_length, about=question.input)
            named = [mail.replace(source=names.get(mail.source, mail.source)) for mail in read]
            return await act(agent, question, named, scope=scope)

        return act_on_weighed
