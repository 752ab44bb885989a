"""Code of tools, written or mended by a model, and tried before it counts (App. A.3, Fig. 12 and 13).

It must pass the tool's examples: calls whose right result is known from the environment's feedback, never from a
reference.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isclose
from typing import Any, Protocol

from pydantic import ValidationError

from selfwire.core.errors import ModelError, ToolError, ToolSourceError, format_first_fault
from selfwire.core.own_tool import EXAMPLES, MODULES, ToolExample, ToolOutcome, WorkflowTool, check_tool_source
from selfwire.core.protocols import Toolbox
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import parse_object, to_canonical_json
from selfwire.evolvers.hiva.schemas import KnownCall, ToolSource
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trajectory_text import shorten

TRIES = 2
"""Asks for the code of a tool; the second one shows what was wrong with the first."""
SHOWN = 300
"""Most characters of a result in a reason."""


class ToolTester(Protocol):
    """Runs tools that are not part of a workflow yet."""

    @property
    def toolbox(self) -> Toolbox:
        """The run's tools, whose names a team's own must not have."""

    async def find_problem(self) -> str:
        """Why no tool can be run here; "" if it can."""

    async def run(self, tool: WorkflowTool, arguments: Mapping[str, Any], *, scope: Scope) -> ToolOutcome:
        """Call a tool once.

        Raises:
            ToolError: the arguments do not fit, or the sandbox failed.
        """


@dataclass(frozen=True)
class ToolWriter:
    """Asks for the code of one tool.

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

    async def synthesize(
        self, make: Callable[[str], WorkflowTool], **sections: str
    ) -> tuple[WorkflowTool | str, Usage]:
        """Write a new tool; the reason where there is none.

        Args:
            make: the tool of a source, with the examples that it must pass.
            sections: of the prompt: name, description and examples.
        """
        return await self._write("tool_synthesis", make, sections)

    async def refine(
        self, old: WorkflowTool, new: tuple[ToolExample, ...], feedback: str
    ) -> tuple[WorkflowTool | str, Usage]:
        """Mend the code of a tool; the reason where there is no better code.

        Args:
            new: the examples that the new version must pass, with the old ones.
        """

        def make(source: str) -> WorkflowTool:
            if source.strip() == old.source.strip():
                raise ValueError("the code is the old one")
            _refuse_other_parameters(old.parameters, check_tool_source(source))
            return old.replace(source=source, examples=new)

        if self.random:
            return await self._draw(old.source, make)
        sections = {"tool_name": old.name, "tool_description": old.description, "examples": render_examples(new)}
        return await self._write("tool_refinement", make, {**sections, "tool_code": old.source, "feedback": feedback})

    async def _draw(self, source: str, make: Callable[[str], WorkflowTool]) -> tuple[WorkflowTool | str, Usage]:
        """Draw single changes of a source at random, as many as a model has tries."""
        from selfwire.tools.tool_mutations import find_mutations  # only a control draws changes

        changes, random = find_mutations(source), self.scope.random("tool changes")
        made: WorkflowTool | str = "the code has nothing to change"
        for place in random.choice(len(changes), size=min(TRIES, len(changes)), replace=False) if changes else ():
            made = await self._try(changes[int(place)].make_source(), make)
            if isinstance(made, WorkflowTool):
                break
        return made, Usage()

    async def _write(
        self, prompt: str, make: Callable[[str], WorkflowTool], sections: Mapping[str, str]
    ) -> tuple[WorkflowTool | str, Usage]:
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
            made = await self._try(attempt, make)
            if isinstance(made, WorkflowTool):
                return made, spent
            complaint = made
        return complaint, spent

    async def _try(self, source: str, make: Callable[[str], WorkflowTool]) -> WorkflowTool | str:
        """The tool if it may run and passes its examples, else why not."""
        if len(source) > self.length:
            return f"the code has {len(source):,} characters; at most {self.length:,} are allowed"
        try:
            check_tool_source(source)
            tool = make(source)
            for example in tool.examples:
                if fault := await self._find_fault(tool, example):
                    return fault
        except ToolSourceError as error:
            return str(error)
        except ValidationError as error:
            return format_first_fault(error)
        except (ValueError, ToolError) as error:
            return str(error)
        return tool

    async def _find_fault(self, tool: WorkflowTool, example: ToolExample) -> str:
        outcome = await self.trial.run(tool, example.arguments, scope=self.scope)
        call = f"{tool.name}({to_canonical_json(example.arguments)})"
        if outcome.failed:
            return f"{call} fails: {shorten(outcome.result, SHOWN)}"
        if not is_same_result(outcome.result, example.result):
            return f"{call} gives {shorten(outcome.result, SHOWN)}, not {shorten(example.result, SHOWN)}"
        return ""


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
