"""The layers of a stage: their chooser, the layers as a team, and its agents' turns (Eq. 8, 9, App. D.3).

    task_state -> every agent of layer 1 -> every agent of layer 2 -> ... -> outcome

The two ends call no model: the first passes the full state on, the last joins the answers of the last layer.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise, product

from selfwire.core.agent import COMPUTING_TOOLS, Agent
from selfwire.core.errors import ConfigError
from selfwire.core.protocols import AgentRunner, Embedder
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.text import mark_earlier
from selfwire.core.topology import Topology, make_topology
from selfwire.core.trajectory import Message, Step, ToolUse, mark_equal_messages
from selfwire.core.values import fingerprint, is_id
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.pool import EARLY_EXIT, to_layers
from selfwire.evolvers.evomas.state import WHOLE_TASK, TaskState, format_state
from selfwire.evolvers.router.choosers import FixedChooser, LearnedChooser, RandomChooser
from selfwire.evolvers.router.decisions import LayerChooser
from selfwire.evolvers.router.weights import get_sampling, load_head

STATE, OUTCOME = "task_state", "outcome"
SO_FAR = "the work so far"
"""The sender of the state, as agents read it."""
PLANNER = "the planner"
"""The sender of the hint, as agents read it."""
OWN = "yourself, a step earlier"
"""The sender of an agent's own answer in the layer before, as the agent reads it."""
ENDS = {name: Agent(id=name, prompt="", kind="signal") for name in (STATE, OUTCOME)}

_SOURCES = re.compile(r"^\W*sources?\W*:", re.IGNORECASE | re.MULTILINE)
_SOURCE = re.compile(r"https?://[^\s<>\"')\]]+|^\[\d+\] (.+)$", re.MULTILINE)
MOST_SOURCES = 10


async def make_chooser(team: Team, config: EvomasConfig, embedder: Embedder) -> LayerChooser:
    """Make the chooser that a config names; a head is built once per weights, off the event loop.

    Raises:
        ConfigError: a plan names agents that the pool lacks, or the weights cannot be used.
        LibraryError: the weights' bytes have not been loaded.
    """
    if config.adapter == "random":
        return RandomChooser(config.sampling, config.head)
    if config.adapter == "fixed":
        plan = config.plan or to_layers(team.topology)
        if unknown := sorted({agent for layer in plan for agent in layer} - set(team.agents_by_id)):
            raise ConfigError(f"the plan names {', '.join(unknown)}; the pool has {', '.join(team.agents_by_id)}")
        return FixedChooser(plan)
    trained = config.adapter == "learned"
    head = await load_head(team, config.head, embedder, trained=trained, transfer=config.transfer)
    return LearnedChooser(head, get_sampling(team, config.routing), embedder)


def make_layered_topology(layers: Sequence[Sequence[str]]) -> Topology:
    """G_t with its two ends; consecutive layers are fully connected.

    Args:
        layers: agent ids, at least one layer and none of them empty.

    Raises:
        ConfigError: an agent has the id of an end, so that it would never run.
    """
    if taken := sorted({agent for layer in layers for agent in layer} & ENDS.keys()):
        raise ConfigError(f"{' and '.join(taken)} is what an end of every stage is called; give the agent another id")
    levels = [[(node_id(number, agent), agent) for agent in layer] for number, layer in enumerate(layers, 1)]
    rows = [[(STATE, STATE)], *levels, [(OUTCOME, OUTCOME)]]
    edges = ((source, target) for pair in pairwise(rows) for (source, _), (target, _) in product(*pair))
    return make_topology(chain(*rows), edges, STATE, OUTCOME)


def make_whole_topology(pool: Team, layers: int) -> Topology:
    """All layers that may be drawn: every agent of the pool in every layer."""
    working = [agent.id for agent in pool.agents if agent.id != EARLY_EXIT]
    return make_layered_topology([working or [EARLY_EXIT]] * layers)


def place_agents(pool: Team, layers: int) -> Team:
    """The pool with a node for every possible place of an agent and no edges, for the schema of the context."""
    drawn = make_whole_topology(pool, layers)
    nodes = tuple(node for node in drawn.nodes if node.agent in pool.agents_by_id)
    return pool.replace(topology=Topology(nodes=nodes, entry=nodes[0].id, sink=nodes[0].id))


def node_id(layer: int, agent: str) -> str:
    """The node of an agent in a layer, from 1."""
    plain = f"L{layer}-{agent}"
    return plain if is_id(plain) else f"L{layer}-{fingerprint(agent)}"


def narrow_question(question: Question, state: TaskState) -> Question:
    """The question with the active subtask as the agents' part of it."""
    current = state.current
    if current is None or current.goal in (WHOLE_TASK, " ".join(question.input.split())):
        return question
    text = f"{question.input}\n\nYour part of the task now, and nothing else: {current.goal}"
    return question.replace(input=text)


def make_stage_runner(runners: Mapping[str, AgentRunner], state: TaskState, *, whole: bool) -> AgentRunner:
    """Make the runner of a stage's agents: they read the full state and the answers of the layer before.

    Args:
        runners: how agents act, by kind; `worker` also runs kinds without an entry.
        state: s_t.
        whole: off is the ablation without a task state.
    """
    described, hint = (format_state(state), state.hint) if whole else ("", "")
    tried = whole and state.current is not None and bool(state.current.attempt)

    async def act(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        read = [message for message in inbox if message.text.strip()]
        turn = Step(node=scope.node, agent=agent.id, visit=scope.visit, inbox=tuple(inbox), output="")
        if agent.id in ENDS:
            return turn.replace(output=described if agent.id == STATE else aggregate(read))
        answers = [_name_author(mail, agent) for mail in read if mail.source != STATE]
        if agent.kind == "refiner" and not answers and not tried:  # its layer runs, although the one before it failed
            return turn
        if answers and COMPUTING_TOOLS.issuperset(agent.tools) and all(mail.source == OWN for mail in answers):
            return turn.replace(output=answers[0].text)  # it would read nothing that it has not read (D27)
        texts = {SO_FAR: described, PLANNER: hint}
        known = [Message(source=name, target=scope.node, text=text) for name, text in texts.items() if text.strip()]
        context = answers if agent.kind == "ensemble" else [*known, *mark_equal_messages(answers)]
        run = runners.get(agent.kind, runners["worker"])
        return add_sources(await run(agent, question, context, scope=scope))

    return act


def aggregate(inbox: Sequence[Message]) -> str:
    """The answers of a layer as one text, nothing long twice; of several, each under its authors' names."""
    authors: dict[str, list[str]] = {}
    for message in inbox:
        authors.setdefault(message.text, []).append(_get_author(message.source))
    if len(authors) == 1:
        return next(iter(authors))
    texts = mark_earlier((f"(the same as that of {by[0]})", text, [text]) for text, by in authors.items())
    return "\n\n".join(f"[{', '.join(by)}]\n{text}" for text, by in zip(texts, authors.values(), strict=True))


def _name_author(mail: Message, reader: Agent) -> Message:
    author = _get_author(mail.source)
    return mail.replace(source=OWN if author == reader.id else author)


def _get_author(node: str) -> str:
    return node.partition("-")[2]


def add_sources(step: Step) -> Step:
    """The step with the sources that its tools gave, where its answer names none (D21)."""
    sources = find_sources(step.tools)
    if step.error or not step.output.strip() or not sources or _SOURCES.search(step.output):
        return step
    return step.replace(output=f"{step.output}\n\nSources: {'; '.join(sources)}")


def find_sources(uses: Sequence[ToolUse]) -> tuple[str, ...]:
    """Addresses and numbered titles in tools' results; else the names of the tools that looked something up."""
    good = [use for use in uses if not use.error and use.name not in COMPUTING_TOOLS]
    found = (match[1] or match[0] for use in good for match in _SOURCE.finditer(use.result))
    sources = tuple(dict.fromkeys(text.strip() for text in found))[:MOST_SOURCES]
    return sources or tuple(dict.fromkeys(use.name for use in good))
