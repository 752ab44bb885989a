"""The file of a team with fixed edges, and what the files of all teams have in common."""

import ast
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from selfwire.core.agent import Agent
from selfwire.core.chat import ToolSpec, load_prompts
from selfwire.core.errors import ConfigError
from selfwire.core.own_tool import FUNCTION, OwnTool
from selfwire.core.team import Team
from selfwire.core.values import FrozenMap
from selfwire.evals.baselines import BASELINES, OPENING, make_baseline
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.kabb import score
from selfwire.evolvers.hiva.memory import HivaMemory
from selfwire.extras.langgraph_file import parts
from selfwire.extras.langgraph_file.source import (
    NameSpace,
    copy_definitions,
    join_definitions,
    list_names,
    parse_module,
    write_comment,
    write_imports,
    write_literal,
)
from selfwire.graphs.method import make_method
from selfwire.graphs.team import Layout
from selfwire.models.providers import write_naming_option
from selfwire.tools.calculator import calculate

CALCULATOR = "calculator"
HEAD = parse_module(
    """
import operator
import os
import sys
from collections.abc import Mapping
from langgraph.types import Send
from typing import Annotated, Any, no_type_check
from typing_extensions import TypedDict
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import ToolException, tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel
"""
).imported
LOCALS = frozenset(
    "AGENTS ANSWERING Answer CHARACTERIZE DEFAULT_PLAN Graph HAND_OVER INSIGHTS MODELS MOST_STEPS NODES PLAN Question "
    "State Work answer build characterize embed graph hand_out handed inbox instructions main messages model models "
    "next_level outputs plan plan_team question read read_inbox readers said sort state work_of written".split()
)
"""Names of the file beside those that it imports and copies; fields of a state cannot be the names of nodes either."""
CALCULATOR_TOOL = '''
@tool("calculator")
def CALCULATOR(expression: Annotated[str, "The expression."]) -> str:
    """Evaluate an arithmetic expression such as (3 + 4) * 2; knows abs, round, min, max, sqrt."""
    return str(calculate(expression))
'''
QUESTION_AND_ANSWER = """
class Question(TypedDict):
    question: str


class Answer(TypedDict):
    answer: str
"""
STATE = f'''{QUESTION_AND_ANSWER}

class State(Question, Answer):
    """A question, what the agents have said so far by their names, and the answer."""

    outputs: Annotated[dict[str, str], operator.or_]
'''
READ = '''
def read(state: State, *sources: str) -> dict[str, str]:
    """Collect what those before an agent have said."""
    return {source: state["outputs"][source] for source in sourcesHEARD}
'''
INBOX = '''
def read_inbox(state: State, reader: str, *sources: str) -> dict[str, str]:
    """Collect what an agent is handed: an instruction, or what those before it have said."""
    written, said = state["instructions"], state["outputs"]
    return {source: written.get(f"{source} to {reader}", said[source]) for source in sources}
'''


Helper = Callable[..., Any]


class OutsideTool(NamedTuple):
    """A tool of a module of the user's."""

    module: str
    name: str
    is_function: bool
    spec: ToolSpec


@dataclass(frozen=True)
class FileStep:
    """A node of a team as a function of the file.

    Attributes:
        sources: nodes that it reads, in order.
        readers: nodes that get an instruction of it in place of its output.
    """

    node: str
    agent: Agent
    sources: tuple[str, ...]
    readers: tuple[str, ...] = ()


def choose_edges(team: Team) -> dict[str, tuple[str, ...]]:
    """Choose the successors that each node hands on to; nodes that are never chosen are left out.

    A bandit's choice is frozen: the arms with the best posterior mean, weighted by their synergy with the nodes that
    are chosen before, and without the match with a question's concepts.
    """
    layout, topology = Layout(team.topology), team.topology
    selected, chosen = {topology.entry: None}, dict[str, tuple[str, ...]]()
    for node in layout.place:
        if node in selected:
            targets = tuple(target for target in topology.successors[node] if target in layout.forward[node])
            chosen[node] = _pick_best(team, node, targets, tuple(selected)) if team.method == "hiva" else targets
            selected |= dict.fromkeys(chosen[node])
    if topology.sink not in selected:
        raise ConfigError(f"no path leads from {topology.entry!r} to {topology.sink!r}, which answers")
    return chosen


def _pick_best(team: Team, node: str, targets: tuple[str, ...], selected: tuple[str, ...]) -> tuple[str, ...]:
    config, learned, topology = HivaConfig().routing, HivaMemory.of(team), team.topology
    arms, eta = [target for target in targets if target != topology.sink], config.synergy_weight

    def weigh(arm: str) -> float:
        mean = learned.belief(topology.agents[arm]).mean
        return score(mean, 0.0, learned.zeta([*selected, node, arm]), distance_weight=0.0, synergy_weight=eta)

    best = sorted(arms, key=lambda arm: (-round(weigh(arm), 9), arm))[: config.k]
    return tuple(target for target in targets if target in best or target == topology.sink)


def list_steps(team: Team) -> list[FileStep]:
    """List the nodes that run, in topological order."""
    chosen, topology, layout = choose_edges(team), team.topology, Layout(team.topology)
    shared = {node for node, arms in topology.successors.items() if len({*arms} - {topology.sink}) > 1}
    steps = []
    for node in layout.place:
        if node in chosen and team.agent_at(node).kind != OPENING:  # that says nothing
            readers = [
                target
                for target in chosen[node]
                if team.method == "hiva"
                and node in shared
                and topology.agents[target] != topology.agents[topology.sink]
            ]
            sources = [
                source
                for source in layout.sources[node]
                if node in chosen.get(source, ()) and team.agent_at(source).kind != OPENING
            ]
            steps.append(FileStep(node, team.agent_at(node), tuple(sources), tuple(readers)))
    return steps


UNCHECKED = "# ruff: noqa  (the code of tools is as a model wrote it)"
NOTES = "\n\nNotes from earlier work:"
GRAPH = "Graph = CompiledStateGraph[State, None, Question, Answer]"
START_OF_GRAPH = '''
def graph() -> Graph:
    """Build the graph for langgraph.json, with the model that MODEL in the environment names."""
    MODELS_OF_AGENTSreturn build(init_chat_model(os.environ.get("MODEL", MODEL_NAME)OPTIONS)GIVEN)


def main() -> None:
    """Answer a question of the command line."""
    try:
        team = graph()
    except Exception as error:  # noqa: BLE001 - each provider has errors of its own
        sys.exit(f"give the model's key, or another MODEL in the environment: {error}")
    print(team.invoke({"question": " ".join(sys.argv[1:])})["answer"])
'''
MAIN = """
if __name__ == "__main__":
    main()
"""
HEARD = ' if state["outputs"][source]'


class TeamFile:
    """The parts of a team's file, and the names in it.

    Args:
        name: of the team.
        tools: of the user's modules, by the names that agents hold.
        model: by name, that the graph is built with where the environment names none.
        models: that agents may ask instead, by the names that they have for them.

    Raises:
        ConfigError: an agent holds another tool or asks another model, or no path leads to the answer.
    """

    renamed: ClassVar[Mapping[str, str]] = {"ToolError": "ToolException", "ReplySchema": "BaseModel"}
    """Names of this package, by those that LangChain and pydantic have for the same."""

    def __init__(
        self,
        team: Team,
        name: str,
        tools: Mapping[str, OutsideTool],
        model: str,
        models: Mapping[str, str] = FrozenMap(),
    ) -> None:
        self.team, self.title, self.model, self.steps = team, name, model, self.list_steps(team)
        self.agents = {step.agent.id: step.agent for step in self.steps}
        self.hands_over = any(step.readers for step in self.steps)
        held = sorted({tool for agent in self.agents.values() for tool in agent.tools})
        self.own = {tool: team.tools_by_name[tool] for tool in held if tool in team.tools_by_name}
        self.given = {tool: tools[tool] for tool in held if tool in tools and tool not in self.own}
        self._refuse_others(held)
        self.models = {
            asked: self._find_model(agent.id, asked, models) for agent in self.agents.values() if (asked := agent.model)
        }
        calculates = CALCULATOR in held and CALCULATOR not in self.own.keys() | self.given.keys()
        helpers: dict[str, set[str]] = {}
        for helper in self.list_helpers():
            helpers.setdefault(helper.__module__, set()).add(helper.__name__)
        self.types, places = copy_definitions(self.first, self.renamed)
        self.places = {**HEAD, **places}
        self.helpers, places = copy_definitions(helpers, self.renamed, list_names(self.types))
        self.places |= places
        self.calculator, places = copy_definitions(
            {calculate.__module__: [calculate.__name__]} if calculates else {}, self.renamed
        )
        self.places |= places
        copied = (self.types, self.helpers, self.calculator)
        taken = set[str]().union(self.places, LOCALS, *(parse_module(text).definitions for text in copied))
        self.names = NameSpace(taken)
        self.functions = {step.node: self.names.add(step.node) for step in self.steps}
        self.tools = {tool: self.names.add(tool, otherwise=f"{tool}_tool") for tool in held}
        self.prompts = {agent: self.names.add(agent, upper=True) for agent in self.agents}
        self.notes = {
            agent.id: self.names.add(f"{agent.id}_notes", upper=True) for agent in self.agents.values() if agent.memory
        }
        method = make_baseline(team.method) if team.method in BASELINES else make_method(team.method)
        self.temperature: float | None = getattr(method.config, "temperature", None)

    first: ClassVar[Mapping[str, Collection[str]]] = {}
    """Definitions that the constants and the state need, by the modules that they are copied from."""

    @staticmethod
    def list_steps(team: Team) -> list[FileStep]:
        """List the nodes that are functions of the file."""
        return list_steps(team)

    def list_helpers(self) -> list[Helper]:
        """List the functions that the file needs beside these."""
        helpers: list[Helper] = [parts.work if _converses(step) else parts.ask for step in self.steps]
        return [*helpers, *[parts.hand_over] * self.hands_over, *[parts.to_text] * bool(self.own)]

    def _refuse_others(self, held: list[str]) -> None:
        for tool in held:
            if tool != CALCULATOR and tool not in self.own.keys() | self.given.keys():
                holder = next(agent.id for agent in self.agents.values() if tool in agent.tools)
                raise ConfigError(
                    f"agent {holder!r} holds tool {tool!r}, which runs give to the team and the team does not contain: "
                    "write it as a function or a LangChain tool in a module of yours, and name it by "
                    f"--tools my_tools:{tool}"
                )

    def _find_model(self, agent: str, asked: str, models: Mapping[str, str]) -> str:
        """Find the model of a name, which may be "provider:model" of one that the user has named."""
        if asked in models or asked in (self.model, *models.values()):
            return models.get(asked, asked)
        raise ConfigError(
            f"agent {agent!r} asks model {asked!r}, which nobody has named here; name it with "
            f"{write_naming_option(asked)}"
        )

    def write(self) -> str:
        """Write the file."""
        tools = [_write_tool(tool, self.tools[name], self.names.add(f"run_{name}")) for name, tool in self.own.items()]
        written = [
            self.types,
            "\n".join(self._write_constants()),
            *self._write_state(),
            "\n".join(self._write_build()),
            self._write_start(),
            *tools,
            CALCULATOR_TOOL.replace("CALCULATOR", self.tools[CALCULATOR]) if self.calculator else "",
            self.helpers,
            self.calculator,
            MAIN,
        ]
        body, given = join_definitions(written), "\n".join(self._import_given())
        head = [
            self._write_docstring(),
            UNCHECKED if self.own else "",
            write_imports(list_names(f"{body}\n{given}"), self.places),
        ]
        gap = "\n\n\n" if body.startswith(("class ", "def ", "@")) else "\n\n"
        return "\n\n".join(filter(None, [*head, given])) + f"{gap}{body}\n"

    def _write_state(self) -> list[str]:
        """Write the state, the type of the graph, and the function by which an agent reads the state."""
        if self.hands_over:
            return [f"{STATE}    instructions: Annotated[dict[str, str], operator.or_]", GRAPH, INBOX]
        return [STATE, GRAPH, READ.replace("HEARD", HEARD if self.team.method in BASELINES else "")]

    def _write_docstring(self) -> str:
        return (
            f'"""{write_comment(self.title)}: {self._describe()}\n\n'
            "Needs langgraph, langchain and the package of a provider of models. MODEL in the environment\n"
            f"names another model than {write_comment(self.model)}.\n"
            f"Made of team {self.team.fingerprint} ({self.team.method}).\n"
            '"""'
        )

    def _describe(self) -> str:
        levels = [[self.functions.get(node) for node in level] for level in self.team.topology.levels()]
        drawn = " -> ".join(", ".join(filter(None, level)) for level in levels if any(level))
        return f"a team of {len(self.steps)} steps, as a LangGraph.\n\n    {drawn}"

    def _write_constants(self) -> Iterator[str]:
        for id, agent in self.agents.items():
            yield f"{self.prompts[id]} = {write_literal(agent.prompt)}"
            if agent.memory:
                notes = "".join(f"\n- {note}" for note in agent.memory)
                yield f"{self.notes[id]} = {write_literal(NOTES + notes)}"
        if self.models:
            named = (f"    {write_literal(name)}: {write_literal(model)},\n" for name, model in self.models.items())
            yield f'MODELS = {{\n{"".join(named)}}}\n"""Models of agents that ask another one, by name."""'
        if self.hands_over:
            yield f"HAND_OVER = {write_literal(load_prompts('evolvers', 'hiva').texts['instruction'].strip())}"

    def _import_given(self) -> Iterator[str]:
        for tool, (module, name, is_function, _) in self.given.items():
            new = f"{self.tools[tool]}_function" if is_function else self.tools[tool]
            yield f"from {module} import {name}" + (f" as {new}" if new != name else "")
        functions = (tool for tool, given in self.given.items() if given.is_function)
        yield from (f"\n{self.tools[tool]} = tool({self.tools[tool]}_function)" for tool in functions)

    def _write_build(self) -> Iterator[str]:
        topology, names = self.team.topology, self.functions
        yield self.add_models("def build(model: BaseChatModel) -> Graph:")
        yield self.add_models('    """Build the graph: `build(model).invoke({"question": "..."})["answer"]`."""\n')
        for step in self.steps:
            yield from self._write_function(step)
        yield "    graph = StateGraph(State, input_schema=Question, output_schema=Answer)"
        yield from (f"    graph.add_node({names[step.node]})" for step in self.steps)
        for step in self.steps:
            sources = [f'"{names[source]}"' for source in step.sources]
            start = f"[{', '.join(sources)}]" if len(sources) > 1 else sources[0] if sources else "START"
            yield f'    graph.add_edge({start}, "{names[step.node]}")'
        yield f'    graph.add_edge("{names[topology.sink]}", END)'
        yield f'    return graph.compile(name="{write_comment(self.title)}")'

    def add_models(self, text: str) -> str:
        """Let `build` take the models of agents beside that of the others, where an agent asks one."""
        if not self.models:
            return text
        taken = "model: BaseChatModel, models: Mapping[str, BaseChatModel]"
        return text.replace("model: BaseChatModel", taken).replace("`build(model)", "`build(model, models)")

    def _write_function(self, step: FileStep) -> Iterator[str]:
        quoted = [quote_id(source) for source in step.sources]
        yield from self._write_signature(step, "state: State")
        if self.hands_over:
            yield f"        inbox = read_inbox({', '.join(['state', quote_id(step.node), *quoted])})"
            yield from self._write_asking(step, "inbox")
        else:
            yield from self._write_asking(step, f"read({', '.join(['state', *quoted])})")
        update = f'"outputs": {{{quote_id(step.node)}: said}}'
        if step.node == self.team.topology.sink:
            update += ', "answer": said'
        if step.readers:
            readers = ", ".join(
                f"{quote_id(node)}: {self.prompts[self.team.agent_at(node).id]}" for node in step.readers
            )
            yield f"        readers = {{{readers}}}"
            yield '        written = hand_over(model, HAND_OVER, state["question"], inbox, messages, readers)'
            yield f'        handed = {{f"{step.node} to {{reader}}": text for reader, text in written.items()}}'
            update += ', "instructions": handed'
        yield f"        return {{{update}}}\n"

    def _write_signature(self, step: FileStep, parameter: str) -> Iterator[str]:
        yield f"    def {self.functions[step.node]}({parameter}) -> dict[str, Any]:"
        if role := write_comment(step.agent.role):
            yield f'        """{role}"""'

    def _write_asking(self, step: FileStep, inbox: str) -> Iterator[str]:
        agent = step.agent
        prompt = self.prompts[agent.id] + (f" + {self.notes[agent.id]}" if agent.memory else "")
        model = f"models[{write_literal(agent.model)}]" if agent.model else "model"
        asked = [model, prompt, 'state["question"]', inbox]
        if agent.tools:
            asked.append(f"[{', '.join(self.tools[tool] for tool in agent.tools)}]")
        if agent.temperature is not None and agent.temperature != self.temperature:
            asked.append(f"temperature={agent.temperature!r}")
        if _converses(step):
            yield f"        messages = work({', '.join(asked)})"
            yield "        said = str(messages[-1].text)"
        else:
            yield f"        said = ask({', '.join(asked)})"

    def _write_start(self) -> str:
        options = f", temperature={self.temperature!r}" if self.temperature is not None else ""
        made = f"models = {{name: init_chat_model(known{options}) for name, known in MODELS.items()}}\n    "
        start = START_OF_GRAPH.replace("MODELS_OF_AGENTS", made if self.models else "")
        start = start.replace("GIVEN", ", models" if self.models else "")
        return start.replace("MODEL_NAME", write_literal(self.model)).replace("OPTIONS", options)


def _converses(step: FileStep) -> bool:
    """Whether a step needs the messages of its work, and not its answer alone."""
    return bool(step.agent.tools or step.readers)


def quote_id(id: str) -> str:
    """Write an id as a literal; it has letters, digits, underscores and dashes only."""
    return f'"{id}"'


def _write_tool(tool: OwnTool, name: str, inner: str) -> str:
    """Write a tool of the team: its source inside a function, so that names of two tools do not meet.

    Raises:
        ConfigError: its source has something that would mean something else there.
    """
    tree, packed = ast.parse(tool.source), "arguments"
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    parameters = [*function.args.args, *function.args.kwonlyargs]
    names = list_names(tool.source)
    if any(isinstance(node, ast.Global) for node in ast.walk(tree)):
        raise ConfigError(f"tool {tool.name!r} assigns to a global variable, which a function of the file cannot hold")
    if clashes := {"to_text", inner}.intersection(parameter.arg for parameter in parameters):
        raise ConfigError(f"tool {tool.name!r} has a parameter {clashes.pop()!r}, which the file needs; rename it")
    while packed in names:
        packed += "_"
    body = _indent(tool.source, tree)
    for parameter, default in _pair_defaults(function.args):
        parameter.annotation = _complete_type(parameter.annotation, default)
    given = ", ".join(f"{parameter.arg}={parameter.arg}" for parameter in parameters)
    function.args.kwarg = None
    return (
        f"@no_type_check\ndef {inner}(**{packed}: Any) -> Any:\n"
        f"    # A model wrote this code. It ran in a sandbox before; here it runs in this process.\n"
        f"{body}\n\n    return {FUNCTION}(**{packed})\n\n\n"
        f"@tool({quote_id(tool.name)}, description={write_literal(tool.description)})\n"
        f"def {name}({ast.unparse(function.args)}) -> str:\n"
        f"    return to_text({inner}({given}))"
    )


def _indent(source: str, tree: ast.Module) -> str:
    """Indent a source, without the lines that begin inside a text."""
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr | ast.Constant)]
    inside = {line for node in texts for line in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)}
    lines = enumerate(source.split("\n"), start=1)
    indented = (line if number in inside or not line.strip() else f"    {line}" for number, line in lines)
    return "\n".join(indented).strip("\n")


def _complete_type(annotation: ast.expr | None, default: ast.expr | None) -> ast.expr:
    """Complete the type of a parameter for type checkers: a text where none is given, its items, and None."""
    shown = {"": "str", "list": "list[Any]", "dict": "dict[str, Any]"}
    text = ast.unparse(annotation) if annotation else ""
    text = shown.get(text, text)
    if isinstance(default, ast.Constant) and default.value is None and "None" not in text:
        text = f"{text} | None"
    return ast.parse(text, mode="eval").body


def _pair_defaults(given: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    """Pair all parameters with their defaults; None for a parameter without one."""
    none: list[ast.expr | None] = [None] * (len(given.args) - len(given.defaults))
    return [
        *zip(given.args, [*none, *given.defaults], strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
