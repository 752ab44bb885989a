"""The tool half of f_P: tools are written, mended and granted from feedback on tools (Sec. 3.6, App. A.3, D31).

A model decides for each agent with such feedback whether one of its tools is rewritten, a new one is written, or one of
the team's is granted. Code is validated before anything runs, and must pass the tool's examples in the sandbox before
it replaces the old one.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from selfwire.core.agent import Agent
from selfwire.core.edits import AddTool, Edit, Grant, RemoveTool, Rewiring, RewriteTool
from selfwire.core.errors import ModelError, ToolError, ToolSourceError
from selfwire.core.own_tool import EXAMPLES, MODULES, OwnTool, ToolExample, ToolOutcome, check_tool_source, is_constant
from selfwire.core.protocols import Toolbox
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.text import excerpt
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenModel, Id, parse_object, to_canonical_json
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.gradients import Gradient, number_tasks
from selfwire.evolvers.hiva.schemas import KnownCall, ToolDecision, ToolSource, offer_operations
from selfwire.evolvers.hiva.semantics import render_gradients
from selfwire.evolvers.prompted_model import WHY_LENGTH, DeclinedProposal, PromptedModel
from selfwire.evolvers.topology_ops import find_free_name
from selfwire.evolvers.trajectory_text import describe_tools, gather_all, shorten

TRIES = 2
"""Asks for the code of a tool; the second one shows what was wrong with the first."""
CALLS = 3
"""Most calls of its writer's that a tool is tried with."""
SHOWN = 300
"""Most characters of a result in a reason."""


class ToolTester(Protocol):
    """Runs tools that are not part of a team yet."""

    @property
    def toolbox(self) -> Toolbox:
        """The run's tools, whose names a team's own must not have."""

    async def find_problem(self) -> str:
        """Why no tool can be run here; "" if it can."""

    async def run(self, tool: OwnTool, arguments: Mapping[str, Any], *, scope: Scope) -> ToolOutcome:
        """Call a tool once.

        Raises:
            ToolError: the arguments do not fit, or the sandbox failed.
        """


@dataclass(frozen=True)
class ToolWriter:
    """Asks for the code of one tool, which is tried before it counts (App. A.3, Fig. 12 and 13).

    It must pass the tool's examples: calls whose right result is known from the environment's feedback, never from a
    reference. And it must give some result for the calls that its writer names.

    Attributes:
        meta_model: asks at the temperature for code.
        length: most characters of a tool's source.
        random: whether the code of a refinement is drawn at random instead, as a control.
    """

    meta_model: PromptedModel
    trial: ToolTester
    length: int
    scope: Scope
    random: bool = False

    async def synthesize(self, make: Callable[[str], OwnTool], **sections: str) -> tuple[OwnTool | str, Usage]:
        """Write a new tool; the reason where there is none.

        Args:
            make: the tool of a source, with the examples that it must pass.
            sections: of the prompt: name, description and examples.
        """
        return await self._write("tool_synthesis", make, sections)

    async def refine(self, old: OwnTool, new: tuple[ToolExample, ...], feedback: str) -> tuple[OwnTool | str, Usage]:
        """Mend the code of a tool; the reason where there is no better code.

        Args:
            new: the examples that the new version must pass, with the old ones.
        """

        def make(source: str) -> OwnTool:
            if source.strip() == old.source.strip():
                raise ValueError("the code is the old one")
            _refuse_other_parameters(old.parameters, check_tool_source(source))
            return old.replace(source=source, examples=new)

        if self.random:
            return await self._draw(old.source, make)
        sections = {"tool_name": old.name, "tool_description": old.description, "examples": render_examples(new)}
        return await self._write("tool_refinement", make, {**sections, "tool_code": old.source, "feedback": feedback})

    async def _draw(self, source: str, make: Callable[[str], OwnTool]) -> tuple[OwnTool | str, Usage]:
        """Draw single changes of a source at random, as many as a model has tries."""
        from selfwire.tools.tool_mutations import find_mutations  # only a control draws changes

        changes, random = find_mutations(source), self.scope.random("tool changes")
        made: OwnTool | str = "the code has nothing to change"
        for place in random.choice(len(changes), size=min(TRIES, len(changes)), replace=False) if changes else ():
            made = await self._try(changes[int(place)].make_source(), make, ())
            if isinstance(made, OwnTool):
                break
        return made, Usage()

    async def _write(
        self, prompt: str, make: Callable[[str], OwnTool], sections: Mapping[str, str]
    ) -> tuple[OwnTool | str, Usage]:
        attempt, complaint, spent = "", "", Usage()
        for _ in range(TRIES):
            reply, usage = await self.meta_model.try_ask(
                ToolSource,
                prompt,
                scope=self.scope,
                by="meta",
                modules=", ".join(sorted(MODULES)),
                length=str(self.length),
                earlier_code=attempt,
                complaint=complaint,
                **sections,
            )
            spent = sum_usages([spent, usage])
            if isinstance(reply, ModelError):
                return str(reply), spent
            attempt = read_source(reply.source)
            made = await self._try(attempt, make, reply.calls)
            if isinstance(made, OwnTool):
                return made, spent
            complaint = made
        return complaint, spent

    async def _try(self, source: str, make: Callable[[str], OwnTool], calls: Sequence[str]) -> OwnTool | str:
        """The tool if it may run, passes its examples and gives results for its writer's calls, else why not."""
        if len(source) > self.length:
            return f"the code has {len(source):,} characters; at most {self.length:,} are allowed"
        try:
            check_tool_source(source)
            if is_constant(source):
                return "the result depends on no parameter; compute it from what the function is given"
            tool = make(source)
            return await self._find_fault(tool, calls) or tool
        except ToolSourceError as error:
            return str(error)
        except (ValueError, ToolError) as error:
            return str(error)

    async def _find_fault(self, tool: OwnTool, calls: Sequence[str]) -> str:
        """The first fault of an example or of another call; "" if all are right."""
        if not (calls or tool.examples or self.random):
            return "no call was given to try it with; give one in calls"
        known = [(example.arguments, example.result) for example in tool.examples]
        for arguments, result in (*known, *((_read_call(call), None) for call in calls[:CALLS])):
            if fault := await self._call(tool, arguments, result):
                return fault
        return ""

    async def _call(self, tool: OwnTool, arguments: Mapping[str, Any], result: str | None) -> str:
        """Why a call is not right: it fails, or does not give the result, where one is known; "" if it is."""
        outcome = await self.trial.run(tool, arguments, scope=self.scope)
        call = f"{tool.name}({to_canonical_json(arguments)})"
        if outcome.failed:
            return f"{call} fails: {shorten(outcome.result, SHOWN)}"
        if result is not None and not is_same_result(outcome.result, result):
            return f"{call} gives {shorten(outcome.result, SHOWN)}, not {shorten(result, SHOWN)}"
        return ""


def _read_call(text: str) -> Mapping[str, Any]:
    try:
        return parse_object(text)
    except ValueError as error:
        raise ValueError(
            f"a call must be a JSON object with its input, not {shorten(text, SHOWN)!r}: {error}"
        ) from None


def read_known_calls(calls: Iterable[KnownCall], feedback: str) -> tuple[ToolExample, ...]:
    """The calls as examples, but for those whose result the feedback does not state word for word."""
    found = []
    for call in calls:
        result = call.result.strip()
        if not result or not re.search(rf"(?<![\w.]){re.escape(result)}(?!\w|\.\d)", feedback):
            continue
        try:
            found.append(ToolExample(arguments=parse_object(call.arguments), result=result))
        except ValueError:
            continue  # no JSON object, or too long
    return tuple(found)


def merge_examples(old: Iterable[ToolExample], new: Iterable[ToolExample]) -> tuple[ToolExample, ...]:
    """Old and new examples; of the same call the older result holds."""
    by_call: dict[str, ToolExample] = {}
    for example in (*old, *new):
        by_call.setdefault(to_canonical_json(example.arguments), example)
    return tuple(by_call.values())[:EXAMPLES]


def is_same_result(result: str, other: str) -> bool:
    """Whether two results are the same text or equal as JSON; numbers may differ in the last digits."""
    if result.strip() == other.strip():
        return True
    try:
        return _is_equal(json.loads(result), json.loads(other))
    except (ValueError, RecursionError):
        return False


def render_examples(examples: tuple[ToolExample, ...]) -> str:
    """Known calls, one per line; "" if there is none."""
    return "\n".join(f"{to_canonical_json(example.arguments)} -> {example.result}" for example in examples)


def read_source(text: str) -> str:
    """The code of a reply, without a code fence around it, with plain line ends."""
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    if lines[0].lstrip().startswith("```"):
        closing = [number for number, line in enumerate(lines) if number and line.strip().startswith("```")]
        lines = lines[1 : closing[0] if closing else None]
    return "\n".join(lines).rstrip() + "\n"


def _refuse_other_parameters(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    kept = all(after["properties"].get(name) == schema for name, schema in before["properties"].items())
    if not kept or set(after["required"]) - set(before["required"]):
        raise ValueError(
            f"the parameters must stay {', '.join(before['properties'])} with their types; further ones need a default"
        )


def _is_equal(value: Any, other: Any) -> bool:
    if type(value) in (int, float) and type(other) in (int, float):
        return isclose(value, other, rel_tol=1e-9, abs_tol=1e-12)
    return type(value) is type(other) and bool(value == other)


REWRITE, CREATE, GRANT, KEEP = "REWRITE_TOOL", "CREATE_TOOL", "GRANT_TOOL", "NO_CHANGE"
REMEMBER = "ADD_EXAMPLES"
"""A tool stays as it is, and examples that its next version must pass are added."""
CALLS_LENGTH, FEEDBACK_LENGTH = 4_000, 6_000


class ToolsResult(FrozenModel):
    """Result of the tool half of f_P.

    Args:
        rewirings: in order of the agents' ids.
        declined: proposals that became no rewiring.
        handled: agents whose feedback on tools was met by other code; their prompts need not say it too. Whoever
            gets a tool is still to be told when to use it.
    """

    rewirings: tuple[Rewiring, ...] = ()
    declined: tuple[DeclinedProposal, ...] = ()
    handled: tuple[Id, ...] = ()
    usage: Usage = Usage()


class _Request(NamedTuple):
    """A change that an agent needs, with the feedback that asks for it."""

    agent: Agent
    gradients: Sequence[Gradient]
    decision: ToolDecision
    examples: tuple[ToolExample, ...]

    @property
    def why(self) -> str:
        return shorten(self.decision.reason.strip() or " ".join(g.tool for g in self.gradients), WHY_LENGTH)


_Found = tuple[Rewiring | DeclinedProposal, Usage]


async def evolve_tools(
    team: Team,
    gradients: Sequence[Gradient],
    trajectories: Sequence[Trajectory],
    meta_model: PromptedModel,
    config: HivaConfig,
    *,
    trial: ToolTester,
    scope: Scope,
) -> ToolsResult:
    """f_P on tools: one decision per agent with feedback on tools, then one piece of code per tool.

    Args:
        trajectories: of the gradients; what the environment says of them may hold known results.
        config: without `tool_evolution`, `semantic_evolution` or `tools` nothing is asked.
        trial: runs new code; its toolbox is the run's, which is no part of the team.
    """
    if not config.evolves_tools:
        return ToolsResult()
    concerns = [g for g in gradients if g.tool.strip() and g.concerns in ("semantics", "both")]
    asking = [(agent, mine) for agent in team.agents if (mine := [g for g in concerns if g.agent == agent.id])]
    if asking and (problem := await trial.find_problem()):
        return ToolsResult(declined=tuple(_decline(agent, REWRITE, problem) for agent, _ in asking))
    smith = _Toolsmith(team, trajectories, meta_model, config, trial, scope)
    decided = await gather_all(smith.decide(agent, mine) for agent, mine in asking)
    found = await smith.act([request for request, _ in decided if isinstance(request, _Request)])
    settled = [result for result, _ in (*decided, *found) if isinstance(result, Rewiring | DeclinedProposal)]
    rewirings = sorted((result for result in settled if isinstance(result, Rewiring)), key=attrgetter("by"))
    return ToolsResult(
        rewirings=tuple(rewirings),
        declined=tuple(result for result in settled if isinstance(result, DeclinedProposal)),
        handled=tuple(name for made in rewirings if made.operation == REWRITE for name in made.by.split(", ")),
        usage=sum_usages([*(usage for _, usage in decided), *(usage for _, usage in found)]),
    )


@dataclass(frozen=True)
class _Toolsmith:
    workflow: Team
    trajectories: Sequence[Trajectory]
    meta_model: PromptedModel
    config: HivaConfig
    trial: ToolTester
    scope: Scope

    async def decide(
        self, agent: Agent, gradients: Sequence[Gradient]
    ) -> tuple[_Request | DeclinedProposal | None, Usage]:
        """Ask what an agent's feedback on tools calls for; None if for nothing."""
        own = [tool for tool in self.workflow.tools if tool.name in agent.tools]
        others = [tool for tool in self.workflow.tools if tool.name not in agent.tools]
        offered = self._list_operations(own, others)
        feedback = self._read_feedback(gradients)
        reply, usage = await self.meta_model.try_ask(
            offer_operations(ToolDecision, offered),
            "tool_decision",
            scope=self.scope.at(phase="tool decision", node=agent.id),
            role=agent.prompt,
            gradients=render_gradients(gradients, lambda g: g.tool),
            own_tools="\n\n".join(map(_describe_tool, own)),
            team_tools="\n".join(f"{tool.name}: {tool.description}" for tool in others),
            lent_tools=describe_tools(
                [name for name in agent.tools if name in self.trial.toolbox], self.workflow, self.trial.toolbox
            ),
            calls=self._render_calls(agent, gradients, own),
            feedback=feedback,
            operations="\n".join(offered),
        )
        if isinstance(reply, ModelError):
            return _decline(agent, KEEP, str(reply)), usage
        if reply.operation == KEEP:
            return None, usage
        if objection := _find_objection(reply, offered, own, others):
            return _decline(agent, reply.operation, objection), usage
        known = read_known_calls(reply.examples, feedback)
        return _Request(agent, gradients, reply, known), usage

    async def act(self, requests: Sequence[_Request]) -> list[_Found]:
        """Do what was decided; requests about the same tool share one piece of code."""
        by_tool: dict[str, list[_Request]] = {}
        for request in requests:
            if request.decision.operation == REWRITE:
                by_tool.setdefault(request.decision.tool, []).append(request)
        granting = [request for request in requests if request.decision.operation == GRANT]
        found: list[_Found] = [(_grant(request), Usage()) for request in granting]
        taken = {*self.trial.toolbox, *self.workflow.tools_by_name}
        rewriting = [self._rewrite(self.workflow.tools_by_name[name], some) for name, some in by_tool.items()]
        creating = []
        granted = {request.decision.tool for request in granting}
        spare = [name for name in list_spare_tools(self.workflow) if name not in granted]
        for place, request in enumerate(wish for wish in requests if wish.decision.operation == CREATE):
            full = len(self.workflow.tools) + place >= self.config.own_tools
            if full and not spare:
                found.append((_decline(request.agent, CREATE, f"the team has {self.config.own_tools} tools"), Usage()))
                continue
            name = find_free_name(_make_name(request.decision), taken)
            taken.add(name)
            creating.append(self._create(name, request, [RemoveTool(spare.pop(0))] if full else []))
        rewritten = [result for results in await gather_all(rewriting) for result in results]
        return [*found, *rewritten, *await gather_all(creating)]

    async def _rewrite(self, tool: OwnTool, requests: Sequence[_Request]) -> tuple[_Found, ...]:
        """The mended tool; where there is none the tool stays, with examples that are new."""
        examples = merge_examples(tool.examples, [example for request in requests for example in request.examples])
        gradients = [gradient for request in requests for gradient in request.gradients]
        by, why = ", ".join(request.agent.id for request in requests), requests[0].why
        feedback = render_gradients(gradients, lambda g: g.tool)
        mended, usage = await self._make_writer(requests[0].agent).refine(tool, examples, feedback)
        if isinstance(mended, OwnTool):
            edit = RewriteTool(tool.name, mended.source, examples=examples)
            return ((Rewiring(edit, why=why, operation=REWRITE, by=by), usage),)
        reason = f"version {tool.version + 1} of {tool.name!r}: {mended}"
        declined = DeclinedProposal(by=by, operation=REWRITE, reason=reason)
        if examples == tool.examples:
            return ((declined, usage),)
        edit = RewriteTool(tool.name, tool.source, examples=examples)
        return (declined, usage), (Rewiring(edit, why=why, operation=REMEMBER, by=by), Usage())

    async def _create(self, name: str, request: _Request, room: Sequence[Edit]) -> _Found:
        """A new tool that the agent holds, after the edits that make room for it."""
        agent, why, examples = request.agent, request.why, request.examples
        description = request.decision.description.strip()

        def make(source: str) -> OwnTool:
            return OwnTool(name=name, description=description, source=source, by=agent.id, why=why, examples=examples)

        sections = {"tool_name": name, "tool_description": description, "examples": render_examples(examples)}
        made, usage = await self._make_writer(agent).synthesize(make, **sections)
        if isinstance(made, str):
            return _decline(agent, CREATE, f"{name!r}: {made}"), usage
        edits = (*room, AddTool(made), Grant(agent.id, name))
        return Rewiring(*edits, why=why, operation=CREATE, by=agent.id), usage

    def _make_writer(self, agent: Agent) -> ToolWriter:
        coder = replace(self.meta_model, temperature=self.config.tool_temperature, quotes_once=False)
        scope = self.scope.at(phase="tool", node=agent.id)
        random = self.config.tool_writer == "random"
        return ToolWriter(coder, self.trial, self.config.tool_length, scope, random)

    def _list_operations(self, own: Sequence[OwnTool], others: Sequence[OwnTool]) -> list[str]:
        has_room = len(self.workflow.tools) - len(list_spare_tools(self.workflow)) < self.config.own_tools
        offered = {REWRITE: own, CREATE: has_room, GRANT: others, KEEP: True}
        return [operation for operation, is_offered in offered.items() if is_offered]

    def _read_feedback(self, gradients: Sequence[Gradient]) -> str:
        """The environment's feedback on the gradients' tasks; nothing in "w/o Env"."""
        tasks = number_tasks(gradients) if self.config.environment else {}
        texts = [
            f"[{tasks[done.question.id]}]\n{done.feedback.text}"
            for done in self.trajectories
            if done.question.id in tasks and done.feedback is not None and done.feedback.text.strip()
        ]
        share = max(FEEDBACK_LENGTH // max(len(texts), 1), 200)
        return "\n".join(excerpt(text, share) for text in texts)

    def _render_calls(self, agent: Agent, gradients: Sequence[Gradient], own: Sequence[OwnTool]) -> str:
        """The agent's calls of its own tools in the tasks of its gradients, one per line."""
        tasks, names = number_tasks(gradients), {tool.name for tool in own}
        lines = [
            f"[{tasks[done.question.id]}] {use.name}({to_canonical_json(use.arguments)}) -> {shorten(use.result, 300)}"
            for done in self.trajectories
            for step in done.steps
            for use in step.tools
            if done.question.id in tasks and step.agent == agent.id and use.name in names
        ]
        return excerpt("\n".join(dict.fromkeys(lines)), CALLS_LENGTH)


def list_spare_tools(team: Team) -> list[str]:
    """Tools of the team's own that no agent holds."""
    held = {name for agent in team.agents for name in agent.tools}
    return [tool.name for tool in team.tools if tool.name not in held]


def _describe_tool(tool: OwnTool) -> str:
    record = tool.record
    parameters = ", ".join(f"{name}: {kind.get('type', 'any')}" for name, kind in tool.parameters["properties"].items())
    calls = f"{record.calls} calls, {record.failures} of them failed" if record.calls else "not called yet"
    known = f"\nknown calls:\n{render_examples(tool.examples)}" if tool.examples else ""
    return f"{tool.name}({parameters}), version {tool.version}, {calls}\n{tool.description}{known}"


def _find_objection(
    decision: ToolDecision, offered: Sequence[str], own: Sequence[OwnTool], others: Sequence[OwnTool]
) -> str:
    if decision.operation not in offered:
        return f"{decision.operation} is not offered; offered are {', '.join(offered)}"
    if decision.operation == CREATE:
        return "" if decision.description.strip() else "the new tool has no description"
    names = [tool.name for tool in (own if decision.operation == REWRITE else others)]
    return "" if decision.tool in names else f"{decision.tool!r} is none of {', '.join(names)}"


def _grant(request: _Request) -> Rewiring:
    agent = request.agent.id
    return Rewiring(Grant(agent, request.decision.tool), why=request.why, operation=GRANT, by=agent)


def _decline(agent: Agent, operation: str, reason: str) -> DeclinedProposal:
    return DeclinedProposal(by=agent.id, operation=operation, reason=reason)


def _make_name(decision: ToolDecision) -> str:
    """A name for a new tool: the proposed one with plain characters, else the first words of its description."""
    words = re.findall(r"[A-Za-z0-9]+", decision.tool) or re.findall(r"[A-Za-z0-9]+", decision.description)[:3]
    return "_".join(words).lower()[:40].strip("_") or "tool"
