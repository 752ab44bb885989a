"""Blame, buffers, variants, contrasts and their integration into prompts."""

from dataclasses import replace

import pytest

from selfwire.core.errors import ModelError, ReplyError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import Message, Trajectory
from selfwire.core.usage import Usage
from selfwire.evolvers.hera.config import PromptConfig
from selfwire.evolvers.hera.failures import (
    Blame,
    Failure,
    add_failure,
    choose_blames,
    get_buffers,
    make_failure,
    render_failures,
    with_buffers,
)
from selfwire.evolvers.hera.rope import (
    PromptLesson,
    VariedPrompt,
    blame_agent,
    extract_lesson,
    generate_variant,
    integrate_lesson,
)
from selfwire.evolvers.hera.rules import Prompt
from selfwire.evolvers.hera.schemas import Contrast, FailedAgent, PromptDiff, PromptVariant
from selfwire.graphs.own_hera import show_texts
from selfwire.models.text_layer import LayerText
from tests.evolvers.hera.doubles import SEARCH, meta_model, pool, ran
from tests.scripted import ScriptedModel

RETRIEVER = pool().agents_by_id["retriever"]
FAILED = ran(score=0.0)


def told(number: int) -> Failure:
    return Failure(question=f"q{number}", asked="?", did=f"did {number}", feedback="wrong", cause="it slept")


async def test_the_orchestrator_names_one_agent_that_ran() -> None:
    model = ScriptedModel(FailedAgent=FailedAgent(agent="Retriever", cause="it searched\nfor everything"))
    toolbox = {"search": SEARCH}
    blame, usage = await blame_agent(3, FAILED, pool(), meta_model(model), toolbox=toolbox, scope=Scope())
    assert blame == Blame(agent="retriever", cause="it searched for everything", place=3)
    assert usage.calls == 1
    [shown] = model.shown("FailedAgent")
    assert "score 0.00 of 1\nsaid of it" in shown
    assert "calculator" not in shown  # it did not run
    assert "<tools>\nsearch: Searches the archive.\n</tools>" in shown


@pytest.mark.parametrize("said", ["retriever (tools: search)", "The retriever.", "[retriever]", "retriever: it slept"])
async def test_a_name_is_understood_in_the_words_around_it(said: str) -> None:
    model = ScriptedModel(FailedAgent=FailedAgent(agent=said))
    blame, _ = await blame_agent(0, FAILED, pool(), meta_model(model), toolbox={}, scope=Scope())
    assert blame == Blame(agent="retriever", place=0)


async def test_a_node_stands_for_its_agent() -> None:
    twice = ran(topology=make_chain("retriever", "answer_generator")).steps
    model = ScriptedModel(FailedAgent=FailedAgent(agent="retriever-2"))
    done = FAILED.replace(steps=(*twice, twice[0].replace(node="retriever-2")))
    blame, _ = await blame_agent(0, done, pool(), meta_model(model), toolbox={}, scope=Scope())
    assert blame == Blame(agent="retriever", place=0)


@pytest.mark.parametrize("answer", [FailedAgent(agent="calculator"), FailedAgent(agent=""), ReplyError("nonsense")])
async def test_nobody_is_blamed_without_a_valid_name(answer: FailedAgent | ReplyError) -> None:
    blame, _ = await blame_agent(
        0, FAILED, pool(), meta_model(ScriptedModel(FailedAgent=answer)), toolbox={}, scope=Scope()
    )
    assert blame is None


def test_a_buffer_keeps_the_last_failures_in_the_workflow() -> None:
    buffers: dict[str, tuple[Failure, ...]] = {}
    for number in range(5):
        buffers = add_failure(buffers, "retriever", told(number), 3)
    team = with_buffers(pool(), add_failure(buffers, "calculator", told(9), 3))
    kept = get_buffers(type(team).model_validate_json(team.model_dump_json()))
    assert {agent: [one.question for one in some] for agent, some in kept.items()} == {
        "calculator": ["q9"], "retriever": ["q2", "q3", "q4"]
    }  # fmt: skip
    assert with_buffers(pool(), {}) == pool()


def test_a_new_failure_of_a_question_replaces_the_older_one() -> None:
    buffers: dict[str, tuple[Failure, ...]] = {}
    for number in (1, 2, 1):
        buffers = add_failure(buffers, "retriever", told(number), 3)
    assert buffers == {"retriever": (told(2), told(1))}


def test_a_failure_tells_what_the_agent_did_and_what_was_said_of_the_answer() -> None:
    found = make_failure(FAILED, Blame(agent="retriever", cause="it slept", place=0))
    assert "[retriever] retriever said" in " ".join(found.text.split())
    assert "evidence_selector said" not in found.text
    assert "feedback: score 0.00 of 1\nsaid of it" in found.text


def test_d7_each_agent_once_the_most_blamed_first_by_its_last_failure() -> None:
    blames = [Blame(agent=name, place=at) for at, name in enumerate("babca")]
    assert [(one.agent, one.place) for one in choose_blames(blames, 2)] == [("a", 4), ("b", 2)]
    assert len(choose_blames(blames, 9)) == 3
    assert choose_blames([], 3) == ()


async def test_d16_a_variant_adds_instructions_below_the_prompt() -> None:
    said = PromptVariant(instructions=["- Search  twice.", "", "a", "b", "c"])
    model = ScriptedModel(PromptVariant=said)
    found, _ = await generate_variant(RETRIEVER, "thoroughness", [told(1)], meta_model(model), scope=Scope())
    assert found is not None
    assert found.instructions == ("Search twice.", "a")  # of the first three
    assert Prompt.of(found.prompt) == Prompt(core=RETRIEVER.prompt, rules=found.instructions)
    assert "thoroughness: " in model.shown("PromptVariant")[0]
    assert "did 1" in model.shown("PromptVariant")[0]


@pytest.mark.parametrize("answer", [PromptVariant(instructions=[]), ModelError("down")])
async def test_without_an_instruction_there_is_no_variant(answer: PromptVariant | ModelError) -> None:
    model = ScriptedModel(PromptVariant=answer)
    assert (await generate_variant(RETRIEVER, "efficiency", [], meta_model(model), scope=Scope()))[0] is None


VARIED = VariedPrompt(axis="thoroughness", instructions=("Search twice.",), prompt="x")
LEARNED = Contrast.model_validate(
    {
        "operational_rules": [{"rule": "Search twice.", "derived_from": "thoroughness against the original"}],
        "behavioral_principles": [{"principle": "Be complete."}],
    }
)


async def test_d12_the_contrast_shows_original_control_and_variants_with_their_scores() -> None:
    model = ScriptedModel(Contrast=LEARNED)
    control, better = ran(score=0.5, tokens=70), ran(score=1.0, tokens=80)
    lesson, _ = await extract_lesson(
        RETRIEVER, FAILED, [(None, control), (VARIED, better)], [told(1), told(2)], meta_model(model), scope=Scope()
    )
    assert (lesson.rules, lesson.principles) == (("Search twice.",), ("Be complete.",))
    [shown] = model.shown("Contrast")
    for part in ("original prompt: score 0.00 of 1", "original prompt, repeated: score 0.50 of 1",
                 "variant thoroughness", "adds: Search twice.",
                 "score 1.00 of 1, 80 tokens\nfeedback: said of it", "did 1"):  # fmt: skip
        assert part in shown
    assert "did 2" not in shown  # the last failure is the original that is shown already


async def test_d19_the_contrast_shows_the_varied_agent_s_work_and_leaves_the_new_prompt_to_the_integration() -> None:
    model = ScriptedModel(Contrast=LEARNED)
    better = ran(score=1.0)
    await extract_lesson(
        RETRIEVER, FAILED, [(None, FAILED), (VARIED, better)], [told(1)], meta_model(model), scope=Scope()
    )
    [shown] = model.shown("Contrast")
    assert shown.count("[retriever] retriever said") == 3
    assert "evidence_selector said" not in shown
    assert set(Contrast.model_fields) == {"operational_rules", "behavioral_principles"}


async def test_the_contrast_names_the_answer_of_every_run_though_the_agent_s_own_text_holds_its_words() -> None:
    def made(run: Trajectory, answer: str, wrote: str) -> Trajectory:
        steps = [step.replace(output=wrote) if step.agent == "retriever" else step for step in run.steps]
        return run.replace(answer=answer, steps=steps)

    model, failed = ScriptedModel(Contrast=LEARNED), made(FAILED, "7", "1874 and 1881")
    runs = [(None, failed), (VARIED, made(ran(score=1.0), "7 years", "7 years"))]
    await extract_lesson(RETRIEVER, failed, runs, [told(1)], meta_model(model), scope=Scope())
    [shown] = model.shown("Contrast")
    assert shown.count("1874 and 1881\nfinal answer: 7\n") == 2
    assert "[retriever] 7 years\nfinal answer: (the text of [retriever])" in shown
    assert "1874 and 1881\nfinal answer: 7" in make_failure(failed, Blame(agent="retriever", place=0)).did


async def test_what_the_agent_writes_with_several_prompts_stands_once_in_the_contrast() -> None:
    program = "```python\ndef median_gap(xs):\n    return median(b - a for a, b in pairwise(sorted(xs)))\n```"
    runs = [run.replace(steps=[step.replace(output=program) for step in run.steps]) for run in (FAILED, ran(score=1.0))]
    model = ScriptedModel(Contrast=LEARNED)
    await extract_lesson(RETRIEVER, runs[0], [(VARIED, runs[1])], [told(1)], meta_model(model), scope=Scope())
    [shown] = model.shown("Contrast")
    assert shown.count(program) == 1
    assert "[retriever] (the same as in the run of the original prompt)" in shown


async def test_those_who_vary_and_contrast_a_prompt_read_what_its_tools_do() -> None:
    model = ScriptedModel(Contrast=LEARNED, PromptVariant=PromptVariant(instructions=["Search twice."]))
    meta, search = meta_model(model), "search: Searches the archive."
    await generate_variant(RETRIEVER, "efficiency", [told(1)], meta, tools=search, scope=Scope())
    runs = [(None, FAILED), (VARIED, ran(score=1.0))]
    await extract_lesson(RETRIEVER, FAILED, runs, [told(1)], meta, tools=search, scope=Scope())
    for schema in ("PromptVariant", "Contrast"):
        assert f"<tools>\n{search}\n</tools>" in model.shown(schema)[0]


@pytest.mark.parametrize(
    "prompt", ["You are a clerk.\nAnswer in one line.", f"You are a clerk.\n\n{'Read on. ' * 30}End."]
)
async def test_a_role_that_is_the_prompt_is_not_shown_twice(prompt: str) -> None:
    team = Team(method="own-graph", agents=[RETRIEVER.replace(prompt=prompt)], topology=make_chain("retriever"))
    [agent] = show_texts(team, {"retriever": LayerText(name="clerk", pieces=(prompt,))}).agents
    model = ScriptedModel(Contrast=LEARNED, PromptVariant=PromptVariant(instructions=["Search twice."]))
    meta = meta_model(model)
    await generate_variant(agent, "efficiency", [told(1)], meta, scope=Scope())
    await extract_lesson(agent, FAILED, [(VARIED, ran(score=1.0))], [told(1)], meta, scope=Scope())
    for schema in ("PromptVariant", "Contrast"):
        assert model.shown(schema)[0].count("You are a clerk.") == 1


def test_a_run_without_an_answer_says_so() -> None:
    for answer in (None, " "):
        did = make_failure(FAILED.replace(answer=answer), Blame(agent="retriever", place=0)).did
        assert did.endswith("\nfinal answer: (there is none)")


async def test_what_there_is_none_of_is_left_out_of_the_contrast() -> None:
    model, idle = ScriptedModel(Contrast=LEARNED), RETRIEVER.replace(tools=())
    await extract_lesson(
        idle, FAILED, [(None, FAILED), (VARIED, ran(score=1.0))], [told(1)], meta_model(model), scope=Scope()
    )
    [shown] = model.shown("Contrast")
    assert "<tools>" not in shown
    assert "earlier failures" not in shown
    assert "(none)" not in shown


PASSAGE = "Passage 7: Mira Holt. Mira Holt was born in Tarn. She was the youngest of nine. In 1931 she moved to Graz."
FILLER = "\n\n".join(f"Passage {n}: Town {n}. The town has a market, a mill and {n} inns." for n in range(80))


async def test_a_failure_shows_what_the_agent_was_handed_and_the_decisive_passage_whole() -> None:
    inbox = (Message(source="query_decomposer", target="retriever", text=f"{FILLER}\n\n{PASSAGE}\n\n{FILLER}"),)
    steps = [
        one.replace(inbox=inbox, output="I read of Mira Holt.") if one.agent == "retriever" else one
        for one in FAILED.steps
    ]
    asked = FAILED.question.model_copy(update={"input": f"{FILLER}\n\n{PASSAGE}\n\n{FILLER}\n\nWho built it?"})
    done = FAILED.replace(steps=steps, question=asked, answer="Mira Holt")
    found = make_failure(done, Blame(agent="retriever", cause="it did not say where Mira Holt was born", place=0))
    assert PASSAGE in found.asked
    assert PASSAGE in found.received
    assert found.received.startswith("From query_decomposer:\n")
    assert "Who built it?" in found.text
    assert len(found.text) < 10_000
    assert Failure.model_validate(found.model_dump(exclude={"received"})).received == ""  # as saved before


def test_of_several_failures_the_last_one_is_whole() -> None:
    long = [told(n).replace(asked=f"{FILLER} {n}") for n in range(2)]
    shown = render_failures(long)
    assert long[1].text in shown
    assert long[0].text not in shown
    assert "did 0" in shown
    assert render_failures([]) == ""


def test_an_earlier_failure_keeps_what_the_agent_did_and_loses_only_task_and_inbox() -> None:
    did = "\n\n".join(f"Sentence {n} on the ice of the tundra, that the agent wrote." for n in range(40))
    earlier = told(0).replace(asked=FILLER, received=FILLER, ran="reader, writer", did=did, cause="it wrote of the ice")
    shown = render_failures([earlier, told(1)])
    assert did in shown
    assert "blamed for: it wrote of the ice\nwho ran: reader, writer\nit did:\nSentence 0" in shown
    assert "feedback: wrong" in shown
    assert len(shown) < len(did) + 2_000


async def test_what_is_said_of_several_answers_alike_is_shown_once() -> None:
    measure = "It is not right. Measured by the overlap of its words with those that are expected. " * 3
    runs = [
        ran(tokens=n).with_feedback(Feedback(score=score, solved=False, text=measure.strip()))
        for n, score in ((70, 0), (80, 0), (90, 0.5))
    ]
    model = ScriptedModel(Contrast=LEARNED)
    once = replace(meta_model(model), quotes_once=True)
    await extract_lesson(RETRIEVER, runs[0], [(None, runs[1]), (VARIED, runs[2])], [], once, scope=Scope())
    assert model.shown("Contrast")[0].count(measure.strip()) == 1


@pytest.mark.parametrize("score", [0.0, 0.5, 1.0])
async def test_replays_of_equal_scores_are_not_contrasted(score: float) -> None:
    model = ScriptedModel(Contrast=LEARNED)
    alike = [(VARIED, ran(score=score, tokens=tokens)) for tokens in (70, 90)]
    found = await extract_lesson(
        RETRIEVER, FAILED, [(None, ran(score=score)), *alike], [told(1)], meta_model(model), scope=Scope()
    )
    assert (found, model.asked) == ((PromptLesson(), Usage()), [])
    worse = [*alike, (VARIED, ran(score=0.2))]
    lesson, _ = await extract_lesson(
        RETRIEVER, FAILED, [(None, ran(score=score)), *worse], [], meta_model(model), scope=Scope()
    )
    assert lesson.rules == ("Search twice.",)


async def test_d11_replays_with_infrastructure_errors_are_not_contrasted() -> None:
    broken, model = ran(score=None, error="down"), ScriptedModel()
    lesson, _ = await extract_lesson(
        RETRIEVER, FAILED, [(None, broken), (VARIED, broken)], [], meta_model(model), scope=Scope()
    )
    assert (lesson, model.asked) == (PromptLesson(), [])


LESSON = PromptLesson(rules=("Search twice.",), principles=("Be complete.",), derived_from=("the comparison",))


@pytest.mark.parametrize("answer", [
    PromptDiff(added_rules=["Search twice."], added_principles=["Be complete."]),
    ReplyError("nonsense"),  # the proposals are added as they are
])  # fmt: skip
async def test_what_is_learned_becomes_an_edit_with_its_reason(answer: PromptDiff | ReplyError) -> None:
    model = ScriptedModel(PromptDiff=answer)
    rewiring, diff, _ = await integrate_lesson(RETRIEVER, LESSON, meta_model(model), PromptConfig(), scope=Scope())
    assert rewiring is not None
    assert rewiring.why == "+ Be complete.; + Search twice. (from the comparison)"
    now = pool().apply(rewiring).agents_by_id["retriever"]
    assert Prompt.of(now.prompt) == Prompt(
        core=RETRIEVER.prompt, principles=("Be complete.",), rules=("Search twice.",)
    )
    assert diff.added == ("Be complete.", "Search twice.")


async def test_d24_a_prompt_without_lines_takes_the_proposals_without_a_call() -> None:
    model = ScriptedModel()
    rewiring, _, usage = await integrate_lesson(RETRIEVER, LESSON, meta_model(model), PromptConfig(), scope=Scope())
    assert rewiring is not None
    assert usage.calls == 0
    assert model.shown("PromptDiff") == []


async def test_nothing_learned_changes_nothing() -> None:
    ruled = RETRIEVER.replace(prompt=Prompt(core="Search.", rules=("Search once.",)).text)
    for lesson, model in ((PromptLesson(), ScriptedModel()), (LESSON, ScriptedModel(PromptDiff=PromptDiff()))):
        assert (await integrate_lesson(ruled, lesson, meta_model(model), PromptConfig(), scope=Scope()))[0] is None
