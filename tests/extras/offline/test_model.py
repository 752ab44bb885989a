from importlib.resources import files
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.tools import tool
from pydantic import BaseModel, Field

from selfwire.evals.instructions import paraphrases
from selfwire.extras.offline import critics
from selfwire.extras.offline.instructions import Voice
from selfwire.extras.offline.model import OfflineChat

QUESTION = "Task:\nWho founded Brol Works?\nEnd with a line that starts with 'Answer:'."
PAGE = "[1] Brol Works\nBrol Works was founded in 1901 by Ada Tron. It is based in Vask."


class Verdict(BaseModel, title="AgentGradient"):
    concerns: str


class Unheard(BaseModel):
    ruling: str = Field(min_length=1)
    weight: float = Field(ge=0, le=1)
    verdicts: list[Verdict]
    certain: bool


@tool
def search(query: str) -> str:
    """Search the corpus."""
    return PAGE


def faultless(**fields: Any) -> OfflineChat:
    return OfflineChat(error_rate=0, critic_error_rate=0, **fields)


def asked(system: str = "You answer.", question: str = QUESTION) -> list[BaseMessage]:
    return [SystemMessage(system), HumanMessage(question)]


def through_the_loop(model: OfflineChat) -> tuple[AIMessage, AIMessage]:
    messages = asked()
    called = model.bind_tools([search]).invoke(messages)
    messages += [called, *(ToolMessage(PAGE, tool_call_id=call["id"]) for call in called.tool_calls)]
    return called, model.bind_tools([search]).invoke(messages)


def test_an_agent_searches_reads_and_answers() -> None:
    called, final = through_the_loop(faultless())
    assert [call["args"] for call in called.tool_calls] == [{"query": "Who founded Brol Works?"}]
    assert final.tool_calls == []
    assert final.text.endswith("Answer: Ada Tron")


def test_usage_model_name_and_skills_are_told() -> None:
    _, final = through_the_loop(faultless())
    assert final.response_metadata["model_name"] == "offline"
    assert final.response_metadata["skills"] == ["look up", "read"]
    usage = final.usage_metadata
    assert usage
    assert usage["input_tokens"] > 0
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


TOLD = "Split the question. Compare the two values."


@pytest.mark.parametrize(
    "text",
    [
        f"Task:\n{TOLD} Who founded Brol Works?",
        f"{QUESTION}\n\nFrom a1:\n- {TOLD}",
        f"{QUESTION}\n\nFrom a1:\n- Fact: a = b\n\n{TOLD}",
        f"{QUESTION}\n\nFrom a1:\nAnswer: {TOLD}",
        f"{QUESTION}\n\nFrom the work so far:\nPlan:\n[s1] DONE: {TOLD}",
    ],
)
def test_the_task_and_what_others_found_never_switch_a_skill_on(text: str) -> None:
    assert faultless().invoke(asked(question=text)).response_metadata["skills"] == ["look up", "read"]


@pytest.mark.parametrize(
    "text",
    [
        f"{QUESTION}\n\nYour part of the task now, and nothing else: {TOLD}",
        f"{QUESTION}\n\nFrom a1:\n{TOLD}\n- Fact: a = b",
        f"{QUESTION}\n\nFrom the work so far:\nPlan:\n[s1] TODO: this part\n\nFrom the planner:\n{TOLD}",
    ],
)
def test_instructions_are_heard_wherever_they_stand_unless_a_voice_hears_less(text: str) -> None:
    def skills(voice: Voice, system: str = "Count the names.") -> object:
        return faultless(voice=voice).invoke(asked(system, text)).response_metadata["skills"]

    assert skills("all") == skills("user") == ["split", "compare"]
    assert skills("system") == ["count", "look up"]
    assert skills("all", "Count the names, and tally them.") == ["split", "compare"]  # the most specific ones first


@pytest.mark.parametrize(
    ("name", "steps", "reply"),
    [
        ("critic", "", "split"),
        ("critic", "- Part 1: When?\n- Part 2: When?\n- Fact: a = b\n- Fact: c = d\n- Conclusion: Brol Works", None),
        ("leader", "", "split"),
        (
            "leader",
            "- Part 1: When?\n- Part 2: When?\n- Fact: a = 1890\n- Fact: c = 1880\n- Conclusion: Tas Press",
            None,
        ),
    ],
)
def test_critics_and_leaders_without_a_schema_name_the_steps_that_others_lack(
    name: str, steps: str, reply: str | None
) -> None:
    system = files("selfwire.evals").joinpath("prompts", "baselines", f"{name}.md").read_text("utf-8")
    task = "Task:\nWhich was founded earlier, Brol Works or Tas Press?"
    text = faultless().invoke(asked(system, f"{task}\n\nFrom draft:\n{steps}\n\nAnswer: unknown")).text
    first = text.split("\n")[0]
    done = {"critic": "No fault found.", "leader": "Nothing is left to do."}[name]
    assert first == done if reply is None else first in paraphrases()[reply]


def test_without_tools_nothing_is_known() -> None:
    assert faultless().invoke(asked()).text.endswith("Answer: unknown")


def test_steps_that_do_nothing_for_a_task_of_no_family_leave_no_remarks_in_the_answer() -> None:
    steps = " ".join(wordings[0] for wordings in paraphrases().values())
    request = asked(f"You help. {steps}", "Task:\nDo we have more bolts or more nuts?\n\nFrom a1:\n- Remark: Nothing.")
    assert faultless().invoke(request).text == "Answer: unknown"


def test_ids_of_tool_calls_differ_between_questions() -> None:
    model = faultless().bind_tools([search])
    first, second = (model.invoke(asked(question=f"Task:\nWho founded {name} Works?")) for name in ("Brol", "Tas"))
    assert first.tool_calls[0]["id"] != second.tool_calls[0]["id"]


def test_a_reply_follows_from_messages_seed_sample_and_temperature_alone() -> None:
    request = [HumanMessage("<prompt>You help.</prompt><gradients>Split the question.</gradients>")]
    schema = {"title": "PromptRewrite", "type": "object", "properties": {"prompt": {"type": "string"}}}

    def rewritten(model: OfflineChat, **place: Any) -> Any:
        bound = model.bind_tools([schema], tool_choice="any").bind(**place)
        return bound.invoke(request).tool_calls[0]["args"]["prompt"]

    assert rewritten(OfflineChat(seed=1)) == rewritten(OfflineChat(seed=2), seed=1)
    assert rewritten(OfflineChat(temperature=0.5)) == rewritten(OfflineChat(), temperature=0.5)
    assert len({rewritten(OfflineChat(seed=seed)) for seed in range(30)}) > 3
    assert len({rewritten(OfflineChat(), sample=sample) for sample in range(30)}) > 3


def test_a_step_goes_wrong_at_the_stated_rate() -> None:
    answers = [
        through_the_loop(OfflineChat(error_rate=rate, seed=seed))[1].text.endswith("Ada Tron")
        for rate in (0.0, 1.0)
        for seed in range(10)
    ]
    assert answers == [True] * 10 + [False] * 10


@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
async def test_structured_output_is_an_object_of_the_schema(method: Any) -> None:
    structured = faultless().with_structured_output(Verdict, method=method)
    advice = "The team needs another agent: Split the question."
    prompt = f"<role>Count and compare.</role><successor_feedback>{advice}</successor_feedback>"
    assert structured.invoke(prompt) == Verdict(concerns="topology")
    assert await structured.ainvoke(prompt) == Verdict(concerns="topology")


@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
def test_an_unknown_schema_gets_a_valid_object(method: Any) -> None:
    critics.warn_once.cache_clear()
    with pytest.warns(UserWarning, match="no critic is of kind 'Unheard'"):
        raw = faultless().with_structured_output(Unheard, method=method, include_raw=True).invoke("anything")
    assert isinstance(raw, dict)
    assert isinstance(raw["parsed"], Unheard)
    assert raw["parsing_error"] is None
    assert isinstance(raw["raw"], AIMessage)


async def test_a_stream_adds_up_to_the_reply() -> None:
    model, messages = faultless().bind_tools([search]), asked()
    whole = model.invoke(messages)
    parts = [chunk async for chunk in model.astream(messages)]
    added = add_ai_message_chunks(*[part for part in parts if isinstance(part, AIMessageChunk)])
    assert added.content == whole.content
    assert added.tool_calls == whole.tool_calls
    assert added.usage_metadata == whole.usage_metadata
    assert len(list(faultless().stream(messages))) > 2


def test_max_tokens_and_stop_words_end_a_reply() -> None:
    short = faultless(max_tokens=1).invoke(asked())
    assert (len(short.content), short.response_metadata["finish_reason"]) == (4, "length")
    assert faultless().invoke(asked(), stop=["wer:"]).text.endswith("Ans")
