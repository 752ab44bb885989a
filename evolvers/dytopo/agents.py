"""Workers and manager as a model plays them: DyTopo's two asks with their prompts (Sec. 3.2.1, 3.5)."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage, Prompts
from selfwire.core.errors import ModelError, ToolError, get_error_cost
from selfwire.core.protocols import Model, Tool, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.text import mark_repeats
from selfwire.core.trajectory import ToolUse
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenMap, Id, parse_object
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.delivery import Memory
from selfwire.evolvers.dytopo.domain import MANAGER, Domain, DytopoMemory, get_workers
from selfwire.evolvers.dytopo.halting import MARK, Rounds, choose_answer, find_objection, show_answer
from selfwire.evolvers.dytopo.induction import Descriptors
from selfwire.evolvers.dytopo.schemas import Call, Halting, Turn, turn_schema
from selfwire.evolvers.dytopo.turns import ManagerTurn, WorkerTurn
from selfwire.evolvers.trajectory_text import find_name
from selfwire.tools.own import call_tool

SHOWN = 1000
"""Most characters of wrong arguments in the error that a worker reads."""

_HEAD = re.compile(r"^\[(?=(?:You|Your answer so far|From [^\]\n]*|Result of [^\]\n]*), round \d+\])", re.MULTILINE)
"""The bracket of a line that could be taken for the head of another entry."""
_NAMED = re.compile(r"^[ \t]*\[(public|answer)\][ \t]*$", re.MULTILINE)
"""A line of a private message that stands for the public message or for the answer."""


_FIELDS = {
    "answer": "- answer: the whole final answer, in exactly the form that the task asks for; empty while you do not "
    "know it, and where your last one stays. The last one that is given is the team's. Who reads your public message "
    "reads it too.",
    "verdict": '- verdict: "pass" if the solution that you were sent is right, "fail" if it is not, "open" if you were '
    "sent none or cannot tell.",
    "calls": '- calls: tools to use now, at most {calls}, each {"tool": its name, "arguments": its input, a JSON '
    "object in a string}. You read the results in the next round.",
}
"""What workers read of the further fields of a reply."""


@dataclass(frozen=True)
class RoundInput:
    """Input of a round.

    Attributes:
        goal: C_task of this round.
        scope: of the round's calls; its visit is the number of the round.
        memories: H_i by worker.
        needs: of the members in the round before (D12); in the round itself for the manager.
        answer: the team's so far, for members whom the goal names (D17); "" without one.
        speakers: who was called to speak (D18); () for all.
    """

    workflow: Team
    question: Question
    goal: str
    scope: Scope
    memories: Mapping[Id, Memory] = FrozenMap()
    needs: Mapping[Id, str] = FrozenMap()
    answer: str = ""
    speakers: tuple[Id, ...] = ()

    @cached_property
    def domain(self) -> Domain:
        """The team's domain: answerers and checkers."""
        return DytopoMemory.of(self.workflow).domain

    @property
    def new_goal(self) -> str:
        """The goal; blank where it is the task, which is shown anyway."""
        return "" if self.goal.strip() == self.question.input.strip() else self.goal.strip()

    def calls(self, worker: Id, rounds: int) -> bool:
        """Whether a worker speaks: if it was called, and an answerer in the last round in any case."""
        is_last = self.scope.visit + 1 == rounds and worker in self.domain.answerers
        return is_last or not self.speakers or worker in self.speakers

    def names(self, worker: Id) -> bool:
        """Whether the goal names a worker."""
        return re.search(rf"\b{re.escape(worker)}\b", self.new_goal, re.IGNORECASE) is not None


@dataclass(frozen=True)
class DytopoAgents:
    """Asks the model for the turns of workers (in the role agent) and of the manager (in the role meta)."""

    model: Model
    prompts: Prompts
    toolbox: Toolbox
    config: DytopoConfig

    async def take_turn(self, worker: Id, given: RoundInput) -> WorkerTurn:
        """Equations 1 and 2: one call over role, goal and memory; then the tools that the reply asks for (D5).

        The turn of a worker that fails after its retries is an error; the round goes on without it (D6).

        Raises:
            BudgetError, OutageError: the run must stop.
        """
        agent, domain, scope = given.workflow.agents_by_id[worker], given.domain, given.scope.at(node=worker)
        if not given.calls(worker, self.config.rounds):
            return WorkerTurn(worker=worker, round=scope.visit, asked=False)
        held = {name: self.toolbox[name] for name in agent.tools if name in self.toolbox}
        schema = turn_schema(
            answers=worker in domain.answerers and domain.form == "text",
            checks=worker in domain.checkers,
            tools=bool(held),
        )
        answer = given.answer if given.names(worker) and worker not in domain.answerers else ""
        sections = {
            "task": given.question.input.strip(),
            "goal": given.new_goal,
            "team": render_roster([member for member in given.workflow.members if member.id != worker]),
            "needs": "\n".join(f"{'You' if member == worker else member}: {n}" for member, n in given.needs.items()),
            "answer": show_answer(domain, answer),
            "memory": render_memory(given.memories.get(worker, ()), answer),
            "number": str(scope.visit + 1),
        }
        messages = self._make_messages(agent, schema, sections, held)
        try:
            turn, usage = await self.model.generate_structured(
                schema,
                messages,
                scope=scope,
                role="agent",
                model=agent.model,
                temperature=self._get_temperature(agent),
            )
        except ModelError as error:
            return WorkerTurn(worker=worker, round=scope.visit, error=str(error), usage=get_error_cost(error))
        uses = [await self._run_tool(call, at, held, scope) for at, call in enumerate(getattr(turn, "calls", ()))]
        before = next((entry.text for entry in given.memories.get(worker, ()) if entry.kind == "answer"), "")
        return _to_worker_turn(agent, turn, uses, usage, scope.visit, before)

    async def manage(self, given: RoundInput, rounds: Rounds) -> ManagerTurn:
        """Equations 12 to 14: the verdict on goal and public messages in order sigma, checked against them (D4).

        The goal stays after a manager that fails.

        Raises:
            BudgetError, OutageError: the run must stop.
        """
        agent, goal = given.workflow.agents_by_id[MANAGER], given.goal
        said = choose_answer(given.domain, rounds[-1:])
        messages = self.prompts.messages(
            "manager",
            prompt=agent.prompt,
            rule=_describe_rule(given.domain),
            check=" Neither is a result that only its author has looked at." if given.domain.checkers else "",
            task=given.question.input.strip(),
            goal=given.new_goal,
            trace=render_global_state(rounds[-1], given.needs) or "Nobody has said anything.",
            answer="" if said else show_answer(given.domain, choose_answer(given.domain, rounds) or ""),
            number=len(rounds),
            rounds=self.config.rounds,
        )
        try:
            verdict, usage = await self.model.generate_structured(
                Halting,
                messages,
                scope=given.scope,
                role="meta",
                model=agent.model,
                temperature=self._get_temperature(agent),
            )
        except ModelError as error:
            return ManagerTurn(goal=goal, why=str(error), usage=get_error_cost(error))
        why = find_objection(given.domain, rounds) if verdict.is_complete else ""
        next_goal = verdict.next_goal.strip() or goal
        workers = get_workers(given.workflow)
        called = [worker for name in verdict.speakers if (worker := find_name(name, workers))]
        return ManagerTurn(
            complete=verdict.is_complete and not why,
            claimed=verdict.is_complete,
            why=why,
            goal=f"{next_goal}\nStill open: {why}." if why else next_goal,
            speakers=() if why else tuple(dict.fromkeys(called)),
            public=verdict.public,
            usage=usage,
        )

    def _get_temperature(self, agent: Agent) -> float:
        return self.config.temperature if agent.temperature is None else agent.temperature

    def _make_messages(
        self, agent: Agent, schema: type[Turn], sections: Mapping[str, str], held: Mapping[str, Tool]
    ) -> Sequence[ChatMessage]:
        notes = "".join(f"\n- {note}" for note in agent.memory)
        extras = [name for name in _FIELDS if name in schema.model_fields]
        fields = "\n".join(_FIELDS[name] for name in extras).replace("{calls}", str(self.config.calls))
        return self.prompts.messages(
            "worker",
            name=agent.id,
            prompt=agent.prompt + (f"\n\nNotes from earlier work:{notes}" if notes else ""),
            fields=fields,
            tools="\n".join(_describe_tool(tool) for tool in held.values()),
            rounds=self.config.rounds,
            **sections,
        )

    async def _run_tool(self, call: Call, at: int, held: Mapping[str, Tool], scope: Scope) -> ToolUse:
        arguments: Any = call.arguments
        try:
            if at >= self.config.calls:
                raise ToolError(f"more than {self.config.calls} calls in one round; ask again in the next")
            if call.tool not in held:
                raise ToolError(f"there is no tool {call.tool!r}; your tools are {', '.join(held)}")
            arguments = _parse_arguments(call.arguments)
            return await call_tool(held[call.tool], arguments, scope=scope.at(node=f"{scope.node}#{at}"))
        except ToolError as error:
            name = re.sub(r"[^A-Za-z0-9_-]", "-", call.tool).lstrip("-_")[:64] or "unknown"
            return ToolUse(name=name, arguments=arguments, result=f"error: {error}", error=True)


def render_memory(memory: Memory, answer: str = "") -> str:
    """A memory as its owner reads it, oldest first; models count rounds from 1.

    Args:
        answer: the team's, if it is shown beside; a long answer is not repeated in messages (D17).
    """
    answer = next((entry.text for entry in memory if entry.kind == "answer"), answer)
    shown = {
        "own": "You, round {0}",
        "answer": "Your answer so far, round {0}",
        "routed": "From {1}, round {0}",
        "tool": "Result of {1}, round {0}",
    }
    texts = [
        mark_repeats(entry.text, answer, MARK) if entry.kind in ("own", "routed") else entry.text for entry in memory
    ]
    return "\n\n".join(
        f"[{shown[entry.kind].format(entry.round + 1, entry.source)}]\n{_HEAD.sub('(', text)}"
        for entry, text in zip(memory, texts, strict=True)
    )


def render_global_state(turns: Sequence[WorkerTurn], needs: Mapping[Id, str] = FrozenMap()) -> str:
    """Equation 12: public messages in the given order, with answers, verdicts, needs (D12), offers and failures."""
    return "\n\n".join(f"[{turn.worker}]\n{_render_public(turn, needs.get(turn.worker, ''))}" for turn in turns)


def render_roster(agents: Sequence[Agent]) -> str:
    """The team, one line per member."""
    return "\n".join(f"{agent.id}: {agent.role}" for agent in agents)


def _render_public(turn: WorkerTurn, need: str) -> str:
    if turn.error is not None:
        return "(failed in this round and said nothing)"
    if not turn.asked:
        return "(was not called in this round)"
    lines = [mark_repeats(turn.public.strip(), turn.answer, MARK)]
    lines += [f"Its answer: {turn.answer.strip()}"] if turn.answer.strip() else []
    lines += [f"Its verdict: {turn.verdict}"] if turn.verdict else []
    lines += [f"Its need: {need}"] if need else []
    lines += [f"Its offer: {offer}"] if (offer := " ".join(turn.descriptors.key.split())) else []
    return "\n".join(line for line in lines if line)


def _to_worker_turn(
    agent: Agent, turn: Turn, uses: Sequence[ToolUse], usage: Usage, visit: int, before: str
) -> WorkerTurn:
    answer = getattr(turn, "answer", "")
    named = {"public": turn.public, "answer": answer or before}
    return WorkerTurn(
        worker=agent.id,
        round=visit,
        public=turn.public,
        private=_NAMED.sub(lambda found: named[found[1]].strip() or found[0], turn.private),
        descriptors=Descriptors(query=turn.query, key=turn.key),
        answer=answer,
        verdict=getattr(turn, "verdict", ""),
        tools=tuple(uses),
        usage=usage,
    )


def _describe_rule(domain: Domain) -> str:
    wanted = "code" if domain.form == "code" else "an answer"
    check = f" and {' and '.join(domain.checkers)} passed it" if domain.checkers else ""
    return f"{' or '.join(domain.answerers)} has given {wanted}{check}"


def _describe_tool(tool: Tool) -> str:
    spec = tool.spec
    inputs = json.dumps(spec.parameters.get("properties", {}), ensure_ascii=False)
    return f"{spec.name}: {spec.description} Input: {inputs}"


def _parse_arguments(text: str) -> FrozenMap:
    try:
        return parse_object(text or "{}")
    except ValueError as error:
        raise ToolError(f"arguments must be a JSON object ({error}), not {text[:SHOWN]!r}") from None
