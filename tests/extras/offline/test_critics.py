"""Critics see what the prompt shows them: each section of it, and nothing else, moves their judgement."""

from pydantic import TypeAdapter

from selfwire.evals.instructions import paraphrases
from selfwire.evolvers.hiva import schemas
from selfwire.extras.offline import critics
from selfwire.extras.offline.critics import neutral
from selfwire.extras.offline.hiva import DROP_CUE, PROMPT_CUE, TEAM_CUE
from selfwire.extras.offline.vocabulary import FED_BACK, VOCABULARY, active_skills
from selfwire.extras.offline.worker import PlainMessage
from tests.extras.offline.replies import replied

COMPARISON = "Which was founded earlier, Brol Works or Tas Press?"
SPLIT = paraphrases()["split"][0]


def test_an_instruction_carries_the_notes_and_leaves_raw_results_behind() -> None:
    output = "tool search(query: Brol) -> [1] Brol\nraw text\n- Fact: a = b\n- Fact: c = d\n\nAnswer: b"
    told = replied(schemas.Instruction, task=COMPARISON, output=output).instruction
    assert "- Fact: a = b\n- Fact: c = d\nAnswer: b" in told
    assert "raw text" not in told


def test_a_profile_names_the_form_of_the_question_and_the_tools_it_needs() -> None:
    tools = "search: Search the corpus.\ncalculator: Evaluate an expression."
    profile = replied(schemas.TaskProfile, task=COMPARISON, tools=tools, known_concepts="none")
    assert profile.main_concept == "compare question"
    assert profile.required_tools == ["search"]
    bridge = replied(schemas.TaskProfile, task="Who founded the city where Tas is based?")
    assert bridge.parallelizability < 0.5 < profile.parallelizability


def test_a_diagnosis_names_the_step_that_the_trace_does_not_show() -> None:
    feedback = "score 0.00 of 1\nwrong"
    lost = replied(schemas.GlobalGradient, task=COMPARISON, trace="[s] Answer: unknown", feedback=feedback)
    assert active_skills(lost.feedback)[0] == "split"
    parts = "- Part 1: x?\n- Part 2: y?\n- Fact: x? = 1\n- Fact: y? = 2"
    late = replied(schemas.GlobalGradient, task=COMPARISON, trace=parts, feedback="score 0.00 of 1\nwrong")
    assert active_skills(late.feedback)[0] == "compare"
    done = replied(schemas.GlobalGradient, task=COMPARISON, trace="", feedback="score 1.00 of 1")
    assert done.sentiment == "positive"


def test_a_diagnosis_errs_at_the_stated_rate() -> None:
    def named(seed: int) -> str:
        found = replied(schemas.GlobalGradient, seed=seed, error_rate=0.3, task=COMPARISON, feedback="score 0.00 of 1")
        return active_skills(found.feedback)[0]

    wrong = sum(named(seed) != "split" for seed in range(400)) / 400
    assert 0.15 < wrong < 0.5  # 0.3 that err, and wordings that nobody understands


def test_blame_goes_to_a_prompt_with_a_place_free_or_to_the_team() -> None:
    feedback = TEAM_CUE + SPLIT
    free = [replied(schemas.AgentGradient, seed=s, role="You help.", successor_feedback=feedback) for s in range(40)]
    assert {bool(g.system_prompt_feedback) for g in free} == {True, False}
    full = replied(schemas.AgentGradient, role="Count the names. Compare the two.", successor_feedback=feedback)
    assert full.system_prompt_feedback == ""
    assert TEAM_CUE in full.overall_feedback


def test_an_agent_that_only_chats_is_told_to_stop() -> None:
    chatty = replied(schemas.AgentGradient, task=COMPARISON, role="Brainstorm.", successor_feedback=TEAM_CUE + SPLIT)
    assert f"{DROP_CUE}brainstorm" in chatty.system_prompt_feedback
    assert chatty.sentiment == "critical"


def test_an_agent_whose_successors_miss_nothing_is_praised() -> None:
    assert replied(schemas.AgentGradient, role="You help.", successor_feedback="fine").sentiment == "positive"


def test_a_gradient_says_what_it_concerns() -> None:
    feedback = TEAM_CUE + SPLIT
    found = [replied(schemas.AgentGradient, seed=s, role="You help.", successor_feedback=feedback) for s in range(40)]
    pairs = {(bool(g.system_prompt_feedback), TEAM_CUE in g.overall_feedback, g.concerns) for g in found}
    assert pairs == {(True, False, "semantics"), (False, True, "topology")}
    assert replied(schemas.AgentGradient, role="You help.", successor_feedback="fine").concerns == "none"


def test_a_rewrite_adds_the_advised_instruction_in_one_of_several_wordings() -> None:
    advice = f"role (weight 0.7): {PROMPT_CUE}{SPLIT}"
    prompts = {replied(schemas.PromptRewrite, seed=s, prompt="You help.", gradients=advice).prompt for s in range(40)}
    assert prompts <= {f"You help.\n{text}" for text in paraphrases()["split"]}
    assert len(prompts) >= 5


def test_a_rewrite_drops_what_should_go_and_leaves_the_rest_without_advice() -> None:
    advice = f"{DROP_CUE}brainstorm"
    assert replied(schemas.PromptRewrite, prompt="You help. Brainstorm freely.", gradients=advice).prompt == "You help."
    assert replied(schemas.PromptRewrite, prompt="You help.", gradients="team: fine").prompt == "You help."


def test_an_error_of_the_rewriter_can_be_any_skill() -> None:
    advice = f"{PROMPT_CUE}{SPLIT}"
    found = {
        active_skills(rewrite.prompt)[0]
        for s in range(300)
        for rewrite in [replied(schemas.PromptRewrite, seed=s, error_rate=1, prompt="You help.", gradients=advice)]
    }
    assert found == {skill.name for skill in VOCABULARY} - FED_BACK


def test_only_offered_operations_are_chosen() -> None:
    advice = f"team: {TEAM_CUE}{SPLIT}"

    def operations(offered: str) -> set[str]:
        found = [replied(schemas.TopologyDecision, seed=s, gradients=advice, operations=offered) for s in range(60)]
        return {decision.operation for decision in found}

    assert operations("ADD_PARALLEL\nADD_SERIAL\nNO_CHANGE") == {"ADD_PARALLEL", "ADD_SERIAL"}
    assert operations("ADD_SERIAL\nNO_CHANGE") == {"ADD_SERIAL"}
    assert operations("NO_CHANGE\nREMOVE_SUCCESSOR") == {"NO_CHANGE"}


def test_a_newcomer_is_described_by_a_prompt_for_the_missing_skill() -> None:
    decision = replied(schemas.TopologyDecision, seed=3, gradients=f"team: {TEAM_CUE}{SPLIT}", operations="ADD_SERIAL")
    assert any(text in decision.description for text in paraphrases()["split"])


def test_a_successor_that_only_chats_is_removed() -> None:
    successors = "reader: Read the passages.\nchatter: Brainstorm before you commit."
    decision = replied(schemas.TopologyDecision, successors=successors, operations="REMOVE_SUCCESSOR\nNO_CHANGE")
    assert (decision.operation, decision.successor) == ("REMOVE_SUCCESSOR", "chatter")


def test_self_criticism_goes_by_the_trace() -> None:
    doubtful = replied(schemas.SelfCriticism, task=COMPARISON, answer="Answer: unknown", trace="")
    assert not doubtful.good_enough
    assert doubtful.criticism
    facts = "Part 1: a?\nPart 2: b?\nFact: a? = 1\nFact: b? = 2\nConclusion: Brol Works"
    assert replied(schemas.SelfCriticism, task=COMPARISON, answer="Answer: Brol Works", trace=facts).good_enough


def test_only_the_users_sections_are_read() -> None:
    messages = [
        PlainMessage("system", "An example: <task>a</task>"),
        PlainMessage("user", "<task>b <role>x</role></task>"),
    ]
    assert critics.sections(messages) == {"task": "b <role>x</role>", "role": "x"}


def test_an_unknown_schema_gets_a_neutral_object() -> None:
    schema = TypeAdapter(dict[str, int]).json_schema()
    assert neutral(schema) == {}
    limits = {"type": "integer", "minimum": 1, "maximum": 6}
    choice = {"enum": ["ADD", "NO_CHANGE"]}
    listed = {"type": "array", "items": {"type": "string", "minLength": 2}, "minItems": 2}
    maybe = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    properties = {"limits": limits, "choice": choice, "listed": listed, "maybe": maybe}
    assert neutral({"type": "object", "properties": properties, "required": list(properties)}) == {
        "limits": 3,
        "choice": "NO_CHANGE",
        "listed": ["--", "--"],
        "maybe": None,
    }
