"""GEPA as a contestant; what holds for every method is tested with the others."""

import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import pytest
from gepa.strategies.instruction_proposal import InstructionProposalSignature

from selfwire.cli.compare import ALL
from selfwire.core.chat import ChatMessage, Reply
from selfwire.core.errors import BudgetError, ConfigError, ModelError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.trajectory import Step, Trajectory
from selfwire.core.usage import Usage
from selfwire.extras.contestants.gepa.adapter import show_turns
from selfwire.extras.contestants.gepa.method import Gepa
from selfwire.extras.offline.proposals import propose_instruction
from selfwire.extras.offline.vocabulary import active_skills
from selfwire.graphs import method
from selfwire.graphs.method import EvolveResult
from selfwire.models.embeddings import HashingEmbedder
from selfwire.runs.pre_evolution import PreEvolution
from selfwire.runs.spec import EvaluateSpec, PreEvolutionSpec, SystemSpec
from tests.request_parts import read_instructions

QUESTIONS = [Question(id=f"q{number}", input=f"What is {number} and {number}?") for number in range(6)]
COMPARISON = "Which was founded earlier, Brol Works or Tas Press?"


class Chat:
    """Is right where its prompt says ADD; proposes what the test says."""

    def __init__(self, propose: Callable[[str], str | Exception]) -> None:
        self.propose = propose
        self.prompts, self.requests = list[str](), list[str]()

    async def generate(self, messages: Sequence[ChatMessage], *, role: str = "agent", **_: Any) -> Reply:
        if role == "meta":
            self.systems = [message.content for message in messages[:-1]]
            self.requests.append(messages[-1].content)
            reply = self.propose(messages[-1].content)
            if isinstance(reply, Exception):
                raise reply
            return Reply(content=reply, usage=Usage(calls=1))
        self.prompts.append(read_instructions(messages[0].content, messages[1].content))
        return Reply(content="right" if "ADD" in self.prompts[-1] else "wrong", usage=Usage(calls=1))


async def grade(done: Trajectory, at: Scope) -> Trajectory:
    right = done.answer == "right"
    return done.with_feedback(Feedback(score=float(right), solved=right, text="fine" if right else "you did not add"))


async def evolve(chat: Chat, guide: str = "", **config: Any) -> EvolveResult:
    method, scope = Gepa(team="single", **config), Scope(run="r", phase="rollout")
    ctx = method.make_ctx(chat, {}, HashingEmbedder(), scope=scope, grade_run=grade, guide=guide)  # type: ignore[arg-type]
    team = method.seed()
    runs = [await grade(await method.answer(team, question, ctx), scope) for question in QUESTIONS]
    return await method.propose(team, runs, ctx.where(phase="evolve"))


async def test_the_best_proposal_becomes_the_prompt_and_the_request_shows_work_and_feedback() -> None:
    chat = Chat(lambda request: "```\nADD the numbers.\n```")
    found = await evolve(chat)
    [rewiring] = found.applied
    assert (rewiring.operation, found.workflow.agents[0].prompt) == ("REWRITE_PROMPT", "ADD the numbers.")
    assert found.notes["validation"] == {"before": 0.0, "after": 1.0}
    assert "### Task\nWhat is" in chat.requests[0]
    assert "#### Work\nwrong" in chat.requests[0]
    assert "The team's answer: wrong\nscore 0.00 of 1\nyou did not add" in chat.requests[0]


async def test_what_the_owner_wishes_is_told_with_a_request() -> None:
    chat = Chat(lambda request: "```\nADD the numbers.\n```")
    await evolve(chat, guide="Be kind.")
    assert chat.systems == ["Be kind."]
    await evolve(chat)
    assert chat.systems == []


@pytest.mark.parametrize("proposed", ["```\nGuess.\n```", "```\n \n```", f"```\n{'ADD ' * 1000}end\n```"])
async def test_a_proposal_that_gains_nothing_or_cannot_be_a_prompt_is_left(proposed: str) -> None:
    chat = Chat(lambda request: proposed)
    found = await evolve(chat, calls=3, prompt_length=1000)
    assert found.applied == ()
    assert all(len(prompt) < 1000 for prompt in chat.prompts)
    assert 1 < len(chat.requests) <= 6 * 3


@pytest.mark.parametrize(("team", "asked"), [("self-refine", 2), ("centralised", 5)])
async def test_its_runs_end_early_as_those_of_the_baseline_do(team: Any, asked: int) -> None:
    class Done(Chat):
        async def generate(self, messages: Sequence[ChatMessage], **_: Any) -> Reply:
            self.prompts.append(messages[1].content)
            replies = {"You check an answer": "No fault found.", "You lead a team": "Nothing is left to do.\nright"}
            said = next((text for words, text in replies.items() if words in messages[1].content), "right")
            return Reply(content=said, usage=Usage(calls=1))

    chat, method = Done(str), Gepa(team=team)
    ctx = method.make_ctx(chat, {}, HashingEmbedder())  # type: ignore[arg-type]
    done = await method.answer(method.seed(), QUESTIONS[0], ctx)
    assert (done.answer, done.usage.calls, len(chat.prompts)) == ("right", asked, asked)
    last = done.steps[-1].agent
    assert show_turns(done, last) is None  # handed on without a call, so it is no example of the agent's work


async def test_failed_proposals_count_and_end() -> None:
    chat = Chat(lambda request: ModelError("overloaded"))
    found = await evolve(chat, calls=2)
    assert found.applied == ()
    assert 2 < len(chat.requests) <= 6 * 2


async def test_the_end_of_a_budget_is_raised_though_the_library_tries_again() -> None:
    chat = Chat(lambda request: BudgetError("budget exhausted"))
    with pytest.raises(BudgetError, match="budget exhausted"):
        await evolve(chat)
    assert len(chat.requests) == 1


async def test_one_graded_run_teaches_nothing() -> None:
    method = Gepa()
    ctx = method.make_ctx(Chat(lambda request: ""), {}, HashingEmbedder(), grade_run=grade)  # type: ignore[arg-type]
    failed = [Trajectory(question=question, workflow="w").as_failed("down") for question in QUESTIONS]
    found = await method.propose(method.seed(), failed, ctx)
    assert (found.applied, found.notes["why"]) == ((), "0 graded runs are too few to learn from")


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method, "find_spec", lambda name: None if name == "gepa" else find_spec(name))
    method.installed_methods.cache_clear()
    with pytest.raises(ConfigError, match=r"method 'gepa' needs the package gepa: pip install 'selfwire\[gepa\]'"):
        method.find_method("gepa")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "gepa" not in [one.name for one in method.installed_methods()]
    method.installed_methods.cache_clear()


def test_compare_all_leaves_it_out_and_compare_evolves_it_on_all_train_tasks_at_once(tmp_path: Path) -> None:
    assert "gepa" not in ALL["all"]
    entries = tuple(SystemSpec(name=name, target=name) for name in ("gepa", "hiva"))
    sizes = PreEvolutionSpec(names=("gepa", "hiva"), train=30, iterations=5, batch=6)
    request = EvaluateSpec(benchmark="archive", entries=entries, evolving=sizes)
    evolved = [PreEvolution(request, sizes, one, tmp_path, None).evolve_request.evolution for one in entries]
    assert [(one.iterations, one.batch) for one in evolved] == [(1, 30), (5, 6)]


def request_for(work: str, score: float, prompt: str = "You help.") -> str:
    """A request as the library words it."""
    step = Step(node="a", agent="a", output=work, usage=Usage(calls=1))
    done = Trajectory(question=Question(id="q", input=COMPARISON), workflow="w", answer=work, steps=(step,))
    example = show_turns(done.with_feedback(Feedback(score=score, solved=score == 1, text="judged")), "a")
    shown: Any = {"current_instruction_doc": prompt, "dataset_with_feedback": [example, example]}
    request = InstructionProposalSignature.prompt_renderer(shown)
    assert isinstance(request, str)
    return request


def proposed(request: str, seed: int = 0, error_rate: float = 0.0) -> str:
    reply = propose_instruction(request, lambda purpose: Random(f"{seed} {purpose}"), error_rate)
    assert reply is not None
    return InstructionProposalSignature.output_extractor(reply)["new_instruction"]


def test_the_offline_model_adds_the_step_that_the_examples_do_not_show() -> None:
    assert active_skills(proposed(request_for("unknown", 0.0)))[0] == "split"
    parts = "- Part 1: x?\n- Part 2: y?\n- Fact: x? = 1\n- Fact: y? = 2"
    assert active_skills(proposed(request_for(parts, 0.0)))[0] == "compare"
    assert proposed(request_for("unknown", 1.0)) == "You help."
    assert propose_instruction("Write a new instruction for the assistant.", lambda purpose: Random(0), 0.0) is None


def test_the_offline_model_errs_in_proposals_as_other_critics_do() -> None:
    wrong = sum(
        active_skills(proposed(request_for("unknown", 0.0), seed, error_rate=0.3))[0] != "split" for seed in range(400)
    )
    assert 0.15 < wrong / 400 < 0.65  # a wrong diagnosis, a wrong rewriting, wordings that nobody understands
