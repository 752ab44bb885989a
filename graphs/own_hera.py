"""HERA on a graph of the user's own: groups of its runs are compared, and RoPE rewrites its prompts.

Nobody plans: nodes and edges are the program's own code. So all runs of a group are of the same graph, there is no
mutation of topologies, and insights say what a step should do. They are shown to RoPE where it varies a prompt, and to
no step of the graph, as what a run is shown has to stand in the user's source. Their utilities move by the replays of
these variants.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from selfwire.core.chat import Prompts
from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.errors import ConfigError
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.trajectory import Message, Trajectory
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.rules import PRINCIPLES, RULES, Prompt
from selfwire.evolvers.trajectory_text import shorten
from selfwire.graphs.hera import LEARNED, Hera, HeraState, note_learning
from selfwire.graphs.machine import Ctx, GraphRunner, run_graph
from selfwire.graphs.method import parse_config
from selfwire.models.text_layer import LayerText

PLANNING = frozenset({"mutation", "explore_temperature", "steps", "pool"})
"""Fields of HERA's config that are about planning teams."""
WORDED = ("reflect", "consolidate")
"""Prompts that speak of planning, and have another wording here."""
ROLE_LENGTH = 200


def make_hera(config: Any) -> Hera:
    """Make HERA for a graph of the user's own.

    Args:
        config: fields of HERA's config by name.

    Raises:
        ConfigError: these are none, or a field is unknown or out of bounds, or is about planning teams.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(f"hera takes fields by name, as in --set hera.group=2, not {config!r}")
    if idle := sorted(PLANNING & config.keys()):
        raise ConfigError(
            f"hera.{idle[0]} is about planning teams, and the nodes and edges of your graph are its own code; leave it "
            "out"
        )
    parsed = parse_config("hera", HeraConfig, config)
    return Hera(parsed.replace(mutation=False))


async def learn_by_hera(
    hera: Hera,
    team: Team,
    runs: Sequence[Trajectory],
    texts: Mapping[str, LayerText],
    ask: GraphRunner,
    ctx: Ctx[Any],
    *,
    frozen: Sequence[str],
) -> tuple[list[Rewiring], Mapping[str, Any], dict[str, Any]]:
    """Learn from graded groups of runs: rewritings of prompts, the team's memory, and notes.

    Args:
        texts: of the graph, by the agents that stand for them.
        ask: puts a question to a team whose prompts are as in the graph; a prompt that cannot be sent is a failed run.
        frozen: parts of the team that must not change.
    """
    shown = show_texts(team, texts)

    async def ask_graph(varied: Team, question: Question, here: Ctx[Any]) -> Trajectory:
        written = [
            old.replace(prompt=write_text(new.prompt, texts.get(old.id))) if new.prompt != known.prompt else old
            for old, known, new in zip(team.agents, shown.agents, varied.agents, strict=True)
        ]
        return await ask(team.replace(agents=tuple(written)), question, here)

    made: Ctx[HeraConfig] = hera.make_ctx(
        ctx.model,
        ctx.tools,
        ctx.embed,
        scope=ctx.scope,
        guide=ctx.guide,
        frozen=tuple(frozen),
        grade_run=ctx.grade_run,
        find_copy=ctx.find_copy,
        ask_graph=ask_graph,
    )
    known = made.prompts.texts
    worded = Prompts(texts={**known, **{name: known[f"{name}_own_graph"] for name in WORDED}})
    given: dict[str, Any] = {"scope": ctx.scope, "ran": shown, "workflow": shown, "trajectories": [*map(line_up, runs)]}
    final = await run_graph(hera.compiled, HeraState, replace(made, prompts=worded), aim="learn", **given)
    rewirings = list[Rewiring]()
    for rewiring in final.applied:
        [edit] = rewiring.edits
        assert isinstance(edit, RewritePrompt), "RoPE rewrites prompts"
        edit = RewritePrompt(edit.agent, write_text(edit.prompt, texts.get(edit.agent)))
        rewirings.append(rewiring.replace(edits=(edit,)))
    memory = {name: value for name, value in final.workflow.memory.items() if name in LEARNED}
    return rewirings, memory, note_learning(final, len(runs))


def show_texts(team: Team, texts: Mapping[str, LayerText]) -> Team:
    """The team as HERA reads it: what was learned stands at the end of a prompt, and a role is how that begins."""
    shown = []
    for agent in team.agents:
        parts = agent.prompt.split("\n\n")
        core = "\n\n".join(part for part in parts if not _is_learned(part))
        prompt = "\n\n".join([core, *filter(_is_learned, parts)])
        role = shorten(" ".join(core.split()), ROLE_LENGTH)
        shown.append(agent.replace(prompt=prompt, role=role) if agent.id in texts else agent)
    return team.replace(agents=tuple(shown))


def write_text(prompt: str, text: LayerText | None) -> str:
    """A prompt of HERA's as a text of the graph, which ends as the program fills it.

    What was learned stands at the end; above a text that ends in a hole, or before that hole if it begins with one too.
    """
    parts = Prompt.of(prompt)
    learned = parts.replace(core="").text.strip()
    if not (learned and text and text.after):
        return prompt
    if not text.before:
        return f"{learned}\n\n{parts.core}"
    return f"{parts.core.removesuffix(text.after).rstrip()}\n\n{learned}\n\n{text.after}"


def _is_learned(part: str) -> bool:
    head, *lines = part.split("\n")
    return head in (PRINCIPLES, RULES) and bool(lines) and all(line.startswith("- ") for line in lines)


def line_up(run: Trajectory) -> Trajectory:
    """A run whose nodes are called by the texts that they sent, each of which is handed what was replied before."""
    steps = [step.replace(node=step.agent) for step in run.steps]
    for number, (before, after) in enumerate(pairwise(steps), 1):
        handed = Message(source=before.node, target=after.node, text=before.output)
        steps[number] = after.replace(inbox=(handed,))
    return run.replace(steps=tuple(steps))
