"""The model that plays workers and manager: DyTopo's two asks with their prompts (Sec. 3.2.1, 3.5)."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from selfwire.core.agent import Agent
from selfwire.core.budget import get_error_cost
from selfwire.core.chat import ChatMessage
from selfwire.core.errors import ModelError, ToolError
from selfwire.core.prompts import Prompts
from selfwire.core.protocols import Model, Tool, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.tool_calls import call_tool
from selfwire.core.trajectory import ToolUse
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenMap, Id, parse_object
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.delivery import Memory
from selfwire.evolvers.dytopo.domain import Domain
from selfwire.evolvers.dytopo.halting import Rounds, find_objection
from selfwire.evolvers.dytopo.induction import Descriptors
from selfwire.evolvers.dytopo.schemas import Call, Turn, Verdict, turn_schema
from selfwire.evolvers.dytopo.turns import ManagerTurn, Private, WorkerTurn

SHOWN = 1000
"""Most characters of wrong arguments in the error that a worker reads."""

_HEAD = re.compile(r"^\[(?=(?:You|From [^\]\n]*|Result of [^\]\n]*), round \d+\])", re.MULTILINE)
"""The bracket of a line that could be taken for the head of another entry."""


_FIELDS = {
    "answer": "- answer: the whole final answer, in exactly the form that the task asks for; empty while you do not "
    "know it. The last one that is given is the team's.",
    "verdict": '- verdict: "pass" if the solution that you were sent is right, "fail" if it is not, "open" if you were '
    "sent none or cannot tell.",
    "calls": '- calls: tools to use now, at most {calls}, each {"tool": its name, "arguments": its input, a JSON '
    "object in a string}. You read the results in the next round.",
}
_UNKNOWN = {"answer": '""', "verdict": '"open"', "calls": "[]"}
"""Further fields of a reply: what workers read of them, and their values in the example."""


@dataclass(frozen=True)
class Team:
    """Asks the model for the turns of workers (in the role agent) and of the manager (in the role meta)."""

    model: Model
    prompts: Prompts
    toolbox: Toolbox
    config: DytopoConfig

    async def turn(
        self,
        agent: Agent,
        question: Question,
        goal: str,
        memory: Memory,
        others: str,
        domain: Domain,
        *,
        needs: Mapping[Id, str],
        scope: Scope,
    ) -> WorkerTurn:
        """Equations 1 and 2: one call over role, goal and memory; then the tools that the reply asks for (D5).

        The turn of a worker that fails after its retries is an error; the round goes on without it (D6).

        Args:
            goal: C_task of this round.
            memory: H_i.
            others: the team, one line per member.
            needs: what the members needed in the round before (D12).
            scope: of the call; its visit is the round.

        Raises:
            BudgetError, OutageError: the run must stop.
        """
        held = {name: self.toolbox[name] for name in agent.tools if name in self.toolbox}
        schema = turn_schema(
            answers=agent.id in domain.answerers and domain.form == "text",
            checks=agent.id in domain.checkers,
            tools=bool(held),
        )
        sections = {
            "task": question.input.strip(),
            "goal": _render_goal(goal, question),
            "team": others,
            "needs": "\n".join(f"{'You' if who == agent.id else who}: {need}" for who, need in needs.items()),
            "memory": render_memory(memory),
            "number": str(scope.visit + 1),
        }
        messages = self._make_messages(agent, schema, sections, held)
        temperature = self.config.temperature if agent.temperature is None else agent.temperature
        try:
            turn, usage = await self.model.generate_structured(
                schema, messages, scope=scope, role="agent", temperature=temperature
            )
        except ModelError as error:
            return WorkerTurn(worker=agent.id, round=scope.visit, error=str(error), usage=get_error_cost(error))
        uses = [await self._run_tool(call, at, held, scope) for at, call in enumerate(getattr(turn, "calls", ()))]
        return _to_worker_turn(agent, turn, uses, usage, scope.visit)

    async def manage(
        self,
        agent: Agent,
        question: Question,
        goal: str,
        rounds: Rounds,
        domain: Domain,
        *,
        needs: Mapping[Id, str],
        scope: Scope,
    ) -> ManagerTurn:
        """Equations 12 to 14: the verdict on goal and public messages in order sigma, checked against them (D4).

        The goal stays after a manager that fails.

        Raises:
            BudgetError, OutageError: the run must stop.
        """
        messages = self.prompts.messages(
            "manager",
            prompt=agent.prompt,
            rule=_describe_rule(domain),
            task=question.input.strip(),
            goal=_render_goal(goal, question),
            trace=render_global_state(rounds[-1], needs) or "Nobody has said anything.",
            number=len(rounds),
            rounds=self.config.rounds,
        )
        temperature = self.config.temperature if agent.temperature is None else agent.temperature
        try:
            verdict, usage = await self.model.generate_structured(
                Verdict, messages, scope=scope, role="meta", temperature=temperature
            )
        except ModelError as error:
            return ManagerTurn(goal=goal, why=str(error), usage=get_error_cost(error))
        why = find_objection(domain, rounds) if verdict.is_complete else ""
        next_goal = verdict.next_goal.strip() or goal
        return ManagerTurn(
            complete=verdict.is_complete and not why,
            claimed=verdict.is_complete,
            why=why,
            goal=f"{next_goal}\nStill open: {why}." if why else next_goal,
            public=verdict.public,
            usage=usage,
        )

    def _make_messages(
        self, agent: Agent, schema: type[Turn], sections: Mapping[str, str], held: Mapping[str, Tool]
    ) -> Sequence[ChatMessage]:
        notes = "".join(f"\n- {note}" for note in agent.memory)
        extras = [name for name in _FIELDS if name in schema.model_fields]
        fields = "\n".join(_FIELDS[name] for name in extras).replace("{calls}", str(self.config.calls))
        return self.prompts.messages(
            "worker",
            prompt=agent.prompt + (f"\n\nNotes from earlier work:{notes}" if notes else ""),
            shown="".join(f", your {name}" for name in extras if name != "calls"),
            results=", the results of your tools" if held else "",
            fields=fields,
            example="".join(f', "{name}": {_UNKNOWN[name]}' for name in extras),
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


def render_memory(memory: Memory) -> str:
    """A memory as its owner reads it, oldest first; models count rounds from 1."""
    shown = {"own": "You, round {0}", "routed": "From {1}, round {0}", "tool": "Result of {1}, round {0}"}
    return "\n\n".join(
        f"[{shown[one.kind].format(one.round + 1, one.source)}]\n{_HEAD.sub('(', one.text)}" for one in memory
    )


def render_global_state(turns: Sequence[WorkerTurn], needs: Mapping[Id, str] = FrozenMap()) -> str:
    """Equation 12: public messages in the given order, with answers, verdicts, needs (D12), offers and failures."""
    return "\n\n".join(f"[{one.worker}]\n{_render_public(one, needs.get(one.worker, ''))}" for one in turns)


def _render_goal(goal: str, question: Question) -> str:
    """The goal; blank where it is the task, which is shown anyway."""
    return "" if goal.strip() == question.input.strip() else goal.strip()


def render_roster(agents: Sequence[Agent]) -> str:
    """The team, one line per member."""
    return "\n".join(f"{agent.id}: {agent.role}" for agent in agents)


def _render_public(one: WorkerTurn, need: str) -> str:
    if one.error is not None:
        return "(failed in this round and said nothing)"
    lines = [one.public.strip()]
    lines += [f"Its answer: {one.answer.strip()}"] if one.answer.strip() else []
    lines += [f"Its verdict: {one.verdict}"] if one.verdict else []
    lines += [f"Its need: {need}"] if need else []
    lines += [f"Its offer: {offer}"] if (offer := " ".join(one.descriptors.key.split())) else []
    return "\n".join(line for line in lines if line)


def _to_worker_turn(agent: Agent, turn: Turn, uses: Sequence[ToolUse], usage: Usage, visit: int) -> WorkerTurn:
    return WorkerTurn(
        worker=agent.id,
        round=visit,
        public=turn.public,
        private=tuple(Private(to=note.to, text=note.text) for note in turn.private if note.text.strip()),
        descriptors=Descriptors(query=turn.query, key=turn.key),
        answer=getattr(turn, "answer", ""),
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
