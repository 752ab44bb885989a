"""The file of a team of HERA, which plans its steps for every question."""

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import ClassVar

from selfwire.core.chat import load_prompts
from selfwire.core.team import Team
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.initial_team import METHOD, list_able_agents, make_default_topology, render_pool
from selfwire.evolvers.hera.library import Insight, get_library, rank_insights
from selfwire.evolvers.trajectory_text import Described, describe_held_tools
from selfwire.extras.langgraph_file.planning_parts import (
    KnownInsight,
    PlainReply,
    QuestionSort,
    TeamStep,
    characterize_question,
    embed_by_spelling,
    plan_steps,
    repair_plan,
    select_insights,
)
from selfwire.extras.langgraph_file.source import write_comment, write_literal
from selfwire.extras.langgraph_file.team_file import (
    CALCULATOR,
    GRAPH,
    QUESTION_AND_ANSWER,
    FileStep,
    Helper,
    TeamFile,
    list_steps,
    quote_id,
)
from selfwire.graphs.team import Layout
from selfwire.tools.calculator import CalculatorTool

STATE = f'''{QUESTION_AND_ANSWER}

class State(Question, Answer):
    """A question, the planned steps, what they have said so far by their names, and the answer."""

    plan: list[TeamStep]
    outputs: Annotated[dict[str, str], operator.or_]


class Work(TypedDict):
    """A step for an agent: the question, the step's name, and texts of the steps that it reads, by their names."""

    question: str
    name: str
    inbox: dict[str, str]
'''
SORT = "    plan: list[TeamStep]\n"
"""The line of the state above which the sort of the question stands."""
NEXT_LEVEL = '''
def read(state: State, step: TeamStep) -> Work:
    """Collect what a step reads."""
    inbox = {name: state["outputs"][name] for name in step["reads"]}
    return Work(question=state["question"], name=step["name"], inbox=inbox)


def next_level(state: State) -> dict[str, Any]:
    """Take the answer once the last step has said it."""
    last = state["plan"][-1]["name"]
    return {"answer": state["outputs"][last]} if last in state["outputs"] else {}


def hand_out(state: State) -> list[Send] | str:
    """Hand the steps of the next level to their agents."""
    said = state["outputs"]
    waiting = [step for step in state["plan"] if step["name"] not in said]
    if not waiting:
        return END
    level = [step for step in waiting if step["level"] == waiting[0]["level"]]
    return [Send(NODES[step["agent"]], read(state, step)) for step in level]
'''
BUILD = '''
def build(model: BaseChatModel) -> Graph:
    """Build the graph: `build(model).invoke({"question": "..."})["answer"]`."""
'''
BUILD_WITH_INSIGHTS = '''
def build(model: BaseChatModel, embed: Embed | None = None) -> Graph:
    """Build the graph: `build(model).invoke({"question": "..."})["answer"]`.

    Args:
        embed: to compare insights by meaning, such as `OpenAIEmbeddings().embed_documents`; by default they are
            compared by spelling.
    """
'''
CHARACTERIZING = '''
    def characterize(state: State) -> dict[str, Any]:
        """Find what sort of question it is."""
        return {"sort": characterize_question(model, CHARACTERIZE, state["question"])}
'''
PLANNING = '''
    def plan_team(state: State) -> dict[str, Any]:
        """Plan who takes part, and who reads whose output."""
        plan = plan_steps(model, PLAN, state["question"], None, [], TEAM, MOST_STEPS)
        return {"plan": repair_plan(plan, [*NODES], ANSWERING, DEFAULT_PLAN, MOST_STEPS)}
'''
SELECTING = '        insights = select_insights(INSIGHTS, state["sort"], embed or embed_by_spelling)\n'
PLANNING_WITH_INSIGHTS = PLANNING.replace("        plan = ", f"{SELECTING}        plan = ").replace(
    "None, []", 'state["sort"], insights'
)
TYPES = ("Embed", *(kind.__name__ for kind in (KnownInsight, PlainReply, QuestionSort, TeamStep)))
"""Definitions that the constants and the state need, so that they stand first."""


class HeraFile(TeamFile):
    """The file of a team that is planned anew for every question, with what earlier questions have taught."""

    renamed: ClassVar[Mapping[str, str]] = {**TeamFile.renamed, "ReplySchema": "PlainReply"}

    @staticmethod
    def list_steps(team: Team) -> list[FileStep]:
        """List the agents that can be planned."""
        return [FileStep(agent.id, agent, ()) for agent in list_able_agents(team.agents)]

    first: ClassVar[Mapping[str, Collection[str]]] = {KnownInsight.__module__: TYPES}

    def list_helpers(self) -> list[Helper]:
        """List the functions that the file needs beside these."""
        self.insights = rank_insights(get_library(self.team))
        helpers: list[Helper] = [plan_steps, repair_plan, *super().list_helpers()]
        learned: list[Helper] = [characterize_question, select_insights, embed_by_spelling]
        return [*learned, *helpers] if self.insights else helpers

    def _describe(self) -> str:
        return f"a team of {len(self.steps)} agents, planned for every question, as a LangGraph."

    def _write_constants(self) -> Iterator[str]:
        yield from super()._write_constants()
        prompts = load_prompts("evolvers", METHOD).texts
        if self.insights:
            yield f"CHARACTERIZE = {write_literal(prompts['characterize'].strip())}"
        yield f"PLAN = {write_literal(prompts['plan'].strip())}"
        agents = [step.agent for step in self.steps]
        toolbox: dict[str, Described] = {CALCULATOR: CalculatorTool(), **self.given}
        pool, tools = render_pool(self.team), describe_held_tools(self.team.agents, self.team, toolbox)
        yield f'TEAM = {{\n    "agents": {write_literal(pool)},\n    "tools": {write_literal(tools)},\n}}'
        nodes = (f"    {quote_id(agent.id)}: {quote_id(self.functions[agent.id])},\n" for agent in agents)
        yield f'NODES = {{\n{"".join(nodes)}}}\n"""Nodes by agent."""'
        answering = "".join(f"    {quote_id(agent.id)},\n" for agent in agents if agent.kind == "aggregator")
        yield f'ANSWERING: list[str] = [\n{answering}]\n"""Agents that a plan may end with."""'
        yield f"MOST_STEPS = {HeraConfig().steps}"
        yield f"DEFAULT_PLAN = [\n{''.join(self._write_default_steps())}]"
        if self.insights:
            yield f"INSIGHTS = [\n{''.join(map(_write_insight, self.insights))}]"

    def _write_default_steps(self) -> Iterator[str]:
        default = self.team.replace(topology=make_default_topology(self.team))
        depth = Layout(default.topology).depth
        for step in list_steps(default):
            reads = ", ".join(map(quote_id, step.sources))
            named = f"name={quote_id(step.node)}, agent={quote_id(step.agent.id)}"
            yield f"    TeamStep({named}, reads=[{reads}], level={depth[step.node]}),\n"

    def _write_state(self) -> list[str]:
        state = STATE.replace(SORT, f"    sort: QuestionSort\n{SORT}") if self.insights else STATE
        return [state, GRAPH, NEXT_LEVEL]

    def _write_build(self) -> Iterator[str]:
        steps = ["characterize", "plan_team"] if self.insights else ["plan_team"]
        yield self.add_models((BUILD_WITH_INSIGHTS if self.insights else BUILD).rstrip("\n"))
        yield CHARACTERIZING + PLANNING_WITH_INSIGHTS if self.insights else PLANNING
        for step in self.steps:
            yield from self._write_signature(step, "state: Work")
            yield from self._write_asking(step, 'state["inbox"]')
            yield '        return {"outputs": {state["name"]: said}}\n'
        yield "    graph = StateGraph(State, input_schema=Question, output_schema=Answer)"
        yield from (f"    graph.add_node({node})" for node in (*steps, "next_level"))
        names = [self.functions[step.node] for step in self.steps]
        yield from (f"    graph.add_node({quote_id(name)}, {name}, input_schema=Work)" for name in names)
        ends = ["START", *map(quote_id, steps)]
        yield from (f"    graph.add_edge({source}, {target})" for source, target in pairwise(ends))
        yield '    graph.add_conditional_edges("plan_team", hand_out, [*NODES.values()])'
        yield "    for node in NODES.values():"
        yield '        graph.add_edge(node, "next_level")'
        yield '    graph.add_conditional_edges("next_level", hand_out, [*NODES.values(), END])'
        yield f'    return graph.compile(name="{write_comment(self.title)}")'


def _write_insight(insight: Insight) -> str:
    profile = insight.profile
    texts = f"{write_literal(profile.summary)}, {insight.utility:.6g}, {write_literal(insight.text)}"
    return f"    KnownInsight({quote_id(profile.type)}, {texts}),\n"
