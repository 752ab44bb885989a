"""What models read: a page per method that is up to date, every prompt in use, and nothing internal in any of them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import pytest

from selfwire.evals.judge import RubricScore
from selfwire.models.sync import run_sync
from selfwire.nodes.ensemble import EnsembleChoice
from selfwire.tools.python import PythonTool
from selfwire.tools.recipes import RecipeSearch
from selfwire.tools.search import BrowseTool
from selfwire.tools.workbench.operations import OPERATIONS
from tests.prompts.pages import COMMAND, FOLDER, render_page
from tests.prompts.recording import Ask, Asks
from tests.prompts.replies import FEEDS, Feed
from tests.prompts.runs import ARCHIVE, RUNS, ask_everything
from tests.scripted import section

PLACEHOLDER = re.compile(r"\$\{?\w+\}?|\{\w+\}")
INTERNAL = (
    r"\bEqs?\.|\bequations? \d|\bAlg\.|\bApp\.|\bSec\.|\bFig\.|\bListings? \d|\bTable \d|\bPrompt \d",
    r"\(D\d+\)|\bD\d\d?\b",
    r"\brepaired\b|\bloose\b|\bstrict schemas\b|\bis dropped\b|\bnot limited here\b",
    r"\bthe paper's\b|\bEquation\b",
    r"by how many years they overlap|periods of time|\boffline\b|\bstand-in\b",
    r"\b(?:selfwire|HiVA|HERA|TacoMAS|DyTopo|EvoMAS|RoPE|KABB)\b",
    r"\b(?:CharacterizeQuery|IdentifyFailedAgents|GenerateVariant|MeteredModel|Workflow|Trajectory)\b",
)
"""Numbers in papers and our departures, how replies are mended, words that only the offline model needs, our names."""
KNOWN: Mapping[str, set[str]] = {}
"""Offenders by method that are still to be mended; one that is gone must leave this list."""
ODD = r"\b(?:no orders?|orders to you|mends?|settle[sd]?|come apart|code aside|owes to)\b"
"""Words of ours that a stranger stumbles over."""
NEVER_ASKED = {
    "evomas": {"early_exit.md"},
    "hera": {"consolidate_own_graph.md", "reflect_own_graph.md"},
    "hiva": {"description.md", "insertion.md"},
}
"""Prompts of agents that end a stage without a call of a model, and those for graphs of a user's own."""

SAID: Mapping[str, tuple[str, ...]] = {
    "dytopo/code_developer.md": ("the last program that you showed stands",),
    "dytopo/general_writer.md": ("as soon as the task itself or what others have found",),
    "dytopo/manager.md": ("All members speak at once, and what they send is read a round later",),
    "dytopo/worker.md": (
        "Everybody sees the task.",
        "what somebody who needs your offer has to read in order to go on",
        "Who checks a piece of work, or builds on it, needs that piece, and who made it offers it",
    ),
    "evomas/evaluator.md": ("what is marked as own knowledge may count where the task says nothing of it",),
    "evomas/io.md": ("an answer of your own from a step earlier", "it is no evidence", 'mark as "own knowledge"'),
    "evomas/planner.md": ("such as a passage of the task, a result or a tool",),
    "hera/agent_answer_generator.md": ("only where neither can hold the answer",),
    "hera/reflect.md": ("differ only by chance", "it cannot tell an agent how to work or to write"),
    "hiva/profile.md": ("parallelizability: 0.1", "parallelizability: 0.9"),
    "hiva/tool_decision.md": ("its calls of its own tools where it has made any",),
    "tacomas/calculator.md": ("Where the task asks for something to be made",),
    "tacomas/reflector.md": ("such as a program or a table, stands at the end without such a line",),
}
"""What a prompt has to say, as a reader in the model's place went wrong without it."""
UNSAID = (
    "repeat it unchanged",
    "in the order in which they build on one another",
    "a team member",
    "not the task or its",
)
"""What such readers were told, and could not do."""

of_every_method = pytest.mark.parametrize("method", RUNS)


@cache
def asked(method: str) -> Sequence[Ask]:
    return run_sync(ask_everything(method))


@of_every_method
def test_the_page_of_a_method_shows_what_a_model_reads(method: str) -> None:
    page = (FOLDER / f"{method}.md").read_text(encoding="utf-8")
    assert page == render_page(method, asked(method)), (
        f"docs/prompts/{method}.md is out of date; run `{COMMAND} {method}`, read what has changed, and commit it"
    )


@of_every_method
def test_every_prompt_is_asked_in_the_runs_of_the_page(method: str) -> None:
    sent = "\n".join(message.content for ask in asked(method) for message in ask.messages)
    unseen = {name for name, line in _longest_lines(method) if line not in sent} - NEVER_ASKED.get(method, set())
    assert not unseen, (
        f"no run of tests/prompts/runs.py asks {', '.join(sorted(unseen))}; add what leads there, or delete it"
    )


@of_every_method
def test_nothing_internal_reaches_a_model(method: str) -> None:
    found = {hit for ask in asked(method) for text in _written_by_us(ask) for hit in _find_internal(text)}
    known = KNOWN.get(method, set())
    assert not found - known, f"only we understand this; see docs/prompts/{method}.md, and word it for a stranger"
    assert not known - found, "this is mended: take it off KNOWN"


@pytest.mark.parametrize(
    "feed", [feed for feeds in FEEDS.values() for feed in feeds], ids=lambda feed: feed.good[0].step
)
def test_a_good_reply_has_the_effect_that_the_page_says_and_a_run_without_it_has_not(feed: Feed) -> None:
    replies = {**feed.run.replies, **{good.step: good.reply for good in feed.good}}
    with_them, without = (run_sync(replace(feed.run, replies=given, asks=Asks()).execute()) for given in (replies, {}))
    assert [good.step for good in feed.good if not good.holds(with_them)] == []
    assert [good.step for good in feed.good if good.holds(without)] == []


@pytest.mark.parametrize("method", FEEDS)
def test_every_structured_reply_of_a_page_has_a_good_one(method: str) -> None:
    good = {reply.title for feed in FEEDS[method] for reply in feed.good}
    assert {ask.step for ask in asked(method)} - good <= {"agent"}


@of_every_method
def test_every_schema_says_what_it_is_and_leaves_no_choice_of_types(method: str) -> None:
    schemas = {ask.step: ask.options["response_format"]["json_schema"] for ask in asked(method) if ask.step != "agent"}
    assert [name for name, schema in schemas.items() if not schema.get("description")] == []
    choices = re.findall(r'"anyOf": \[\{"type": "(\w+)"\}, \{"type": "(\w+)"\}\]', json.dumps(schemas))
    assert [choice for choice in choices if "null" not in choice] == []


def test_a_schema_names_the_operations_that_are_offered_and_no_others() -> None:
    decisions = [ask for ask in asked("hiva") if ask.step in ("TopologyDecision", "ToolDecision")]
    assert len(decisions) > 2
    for ask in decisions:
        named = ask.options["response_format"]["json_schema"]["schema"]["properties"]["operation"]["enum"]
        assert named == section(ask.messages[-1].content, "operations").split("\n")


GAPS = (
    r"\n[ \t]*\n[ \t]*\n",
    r"[ \t]+\n",
    r"<(\w+)>\s*</\1>",
    r":\s*(?=<(\w+)>\s*</\1>|\Z)",
    r"\b(a|an|and|at|by|for|in|is|it|of|on|or|the|to|with) \1\b",
    r"^\W*(?:none|nothing)\W*$",
)
"""Doubled blank lines, blanks at an end of a line, sections and headings with nothing beneath, doubled words, and lines
that say that there is nothing."""


@of_every_method
def test_nothing_in_a_prompt_is_empty_or_doubled(method: str) -> None:
    texts = {text.content for ask in asked(method) for text in ask.messages if text.role in ("system", "user")}
    assert len(texts) > 10
    found = [(gap, hit[0]) for text in texts for gap in GAPS for hit in re.finditer(gap, text, re.MULTILINE)]
    assert found == []


@pytest.mark.parametrize("name", SAID)
def test_a_prompt_says_what_its_reader_needs(name: str) -> None:
    text = files("selfwire.evolvers").joinpath("prompts", *name.split("/")).read_text(encoding="utf-8")
    assert [words for words in SAID[name] if words not in text] == []
    assert [words for words in UNSAID if words in text] == []


def test_nothing_internal_is_in_prompts_and_schemas_beside_the_methods() -> None:
    prompts = [file.read_text(encoding="utf-8") for file in _prompt_files("nodes", "evals")]
    schemas = [json.dumps(schema.model_json_schema()) for schema in (EnsembleChoice, RubricScore)]
    assert len(prompts) > 10
    assert not [hit for text in [*prompts, *schemas] for hit in _find_internal(text)]


def test_prompts_have_everyday_words() -> None:
    texts = [file.read_text(encoding="utf-8") for file in _prompt_files("nodes", "evals", "evolvers")]
    assert not [hit for text in texts for hit in re.findall(ODD, text, re.IGNORECASE)]


def test_nothing_internal_is_in_descriptions_of_tools() -> None:
    own = [PythonTool.spec, RecipeSearch().spec, BrowseTool(()).spec]
    specs = [*own, *(tool.spec for tool in ARCHIVE.toolbox.values()), *(one.spec for one in OPERATIONS.values())]
    assert len(specs) > 10
    assert not [hit for spec in specs for hit in _find_internal(spec.model_dump_json())]


def _written_by_us(ask: Ask) -> Iterator[str]:
    yield from (message.content for message in ask.messages if message.role in ("system", "user"))
    yield json.dumps(ask.options)


def _find_internal(text: str) -> Iterator[str]:
    return (match[0] for pattern in INTERNAL for match in re.finditer(pattern, text))


def _prompt_files(*rooms: str) -> Iterator[Traversable]:
    folders = [files(f"selfwire.{room}").joinpath("prompts") for room in rooms]
    while folders:
        for entry in folders.pop().iterdir():
            if entry.is_dir():
                folders.append(entry)
            elif entry.name.endswith(".md"):
                yield entry


def _longest_lines(method: str) -> Iterator[tuple[str, str]]:
    """The name and the longest line without placeholders of each prompt file of a method."""
    for file in files("selfwire.evolvers").joinpath("prompts", method).iterdir():
        if file.name.endswith(".md"):
            lines = file.read_text(encoding="utf-8").splitlines()
            yield file.name, max((line for line in lines if not PLACEHOLDER.search(line)), key=len)
