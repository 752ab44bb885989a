"""Which layers are run, who is masked, when a run ends, and what of it is left for training."""

from collections.abc import Sequence
from typing import Literal

import pytest

from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Step
from selfwire.core.values import format_count
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.layers import aggregate, make_stage_runner
from selfwire.evolvers.evomas.pictures import format_stage
from selfwire.evolvers.evomas.pool import (
    COMPUTING_IO,
    EARLY_EXIT,
    FOUR,
    ROLES,
    SEVEN,
    find_browsing_tools,
    make_initial_team,
    to_layers,
)
from selfwire.evolvers.evomas.stages import (
    Stage,
    collect_findings,
    describe_change,
    find_masked_agents,
    find_masked_openers,
    find_stop_reason,
    get_best_outcome,
    get_runnable_part,
    to_episode,
)
from selfwire.evolvers.evomas.state import (
    Assessment,
    HistoryEntry,
    Subtask,
    TaskState,
    format_plan,
    format_state,
    to_rows,
)
from selfwire.evolvers.router.decisions import LayeredWorkflow
from selfwire.extras.offline.vocabulary import find_skills
from selfwire.tools.ready import READY
from tests.evolvers.evomas.states import OBJECTIVE, PROMPTS, state, subtask

DONE, OPEN = state(subtask(1, "completed")), state(subtask(1), subtask(2))
SMALL = state(subtask(1))
"""A plan of one subtask."""


def stage(number: int = 0, *layers: tuple[str, ...], verdict: str = "success", after: TaskState = OPEN) -> Stage:
    return Stage(
        number=number,
        rows=("Active subtask: x",),
        agents=("io", EARLY_EXIT),
        layered=LayeredWorkflow(layers=layers or (("io",),)),
        outcome=f"outcome {number}",
        assessment=Assessment.model_validate({"verdict": verdict}),
        state=after,
    )


@pytest.mark.parametrize(
    ("layers", "ran", "exits"),
    [
        ((("io",), ("ensemble",)), (("io",), ("ensemble",)), False),
        ((("io",), (EARLY_EXIT, "web_search"), ("ensemble",)), (("io",), ("web_search",)), True),
        (((EARLY_EXIT,), ("io",)), (), True),
        ((("io",), (EARLY_EXIT,), ("ensemble",)), (("io",),), True),
    ],
)
def test_early_exit_lets_its_layer_finish_and_skips_the_rest(
    layers: tuple[tuple[str, ...], ...], ran: tuple[tuple[str, ...], ...], exits: bool
) -> None:
    assert get_runnable_part(LayeredWorkflow(layers=layers)) == (ran, exits)
    told = f"  early exit after {format_count(len(ran), 'layer')}\n"
    assert (told in format_stage(stage(0, *layers))) is exits


def pool(*tools: str, size: Literal[4, 7] = 7) -> tuple[Agent, ...]:
    return make_initial_team(PROMPTS, tools=tools, config=EvomasConfig(pool=size)).agents


def only(*names: str) -> tuple[Agent, ...]:
    return tuple(agent for agent in pool() if agent.id in names)


def test_early_exit_is_masked_until_a_subtask_is_completed() -> None:
    assert find_masked_agents(OPEN, pool("search")) == {EARLY_EXIT}
    assert find_masked_agents(DONE, pool("search")) == set()
    assert find_masked_agents(OPEN, only("io")) | find_masked_openers(OPEN, only("io")) == {EARLY_EXIT}
    assert find_masked_agents(OPEN, only(EARLY_EXIT)) == set()
    assert find_masked_agents(DONE, pool("search"), early_exit=False) == {EARLY_EXIT}


def test_early_exit_is_drawn_behind_the_first_layer_of_a_plan_of_one_subtask() -> None:
    assert find_masked_agents(SMALL, pool("search")) == set()
    assert EARLY_EXIT in find_masked_openers(SMALL, pool("search"))
    assert find_masked_agents(state(subtask(1, "failed"), subtask(2)), pool("search")) == {EARLY_EXIT}


def test_d20_searchers_without_tools_are_masked() -> None:
    assert find_masked_agents(DONE, pool()) == {"web_search", "web_browser"}
    assert find_masked_agents(DONE, pool("search")) == set()
    assert find_masked_agents(DONE, only("web_search", EARLY_EXIT)) == set()  # nobody else is there


def test_d20_who_works_on_solutions_does_not_begin_without_one() -> None:
    assert find_masked_openers(OPEN, pool()) == {"self_refine", "ensemble", EARLY_EXIT}
    assert find_masked_openers(DONE, pool()) == {"self_refine", "ensemble"}  # another part's result is no solution
    assert find_masked_openers(state(subtask(1, attempt="half of it")), pool()) == {"ensemble", EARLY_EXIT}
    assert find_masked_openers(DONE, only("ensemble", EARLY_EXIT)) == set()  # nobody else is there
    assert find_masked_openers(OPEN, only("ensemble", EARLY_EXIT)) == {EARLY_EXIT}


def test_why_a_run_ends() -> None:
    assert find_stop_reason([stage()], limit=2) is None
    assert find_stop_reason([stage(), stage(1)], limit=2) == "stages"
    assert find_stop_reason([stage(after=DONE)], limit=1) == "done"
    assert find_stop_reason([stage(0, ("io", EARLY_EXIT), after=DONE)], limit=9) == "early_exit"
    assert find_stop_reason([stage(0, ("io",), (EARLY_EXIT,), verdict="refine", after=SMALL)], limit=9) is None
    assert find_stop_reason([stage(0, (EARLY_EXIT,), after=SMALL)], limit=9) == "early_exit"  # nothing ran


def test_the_best_outcome_is_that_of_the_last_success_else_the_last_one() -> None:
    assert get_best_outcome([stage(), stage(1), stage(2, verdict="refine")]) == "outcome 1"
    assert get_best_outcome([stage(verdict="fail"), stage(1, verdict="refine")]) == "outcome 1"
    assert get_best_outcome([stage().replace(outcome=None)]) is None


def test_findings_are_what_passed_and_attempts_at_what_did_not() -> None:
    tried = [stage(0, verdict="refine"), stage(1), stage(2, verdict="fail"), stage(3, verdict="refine")]
    goals = ("one", "one", "two", "two")
    stages = [made.replace(goal=goal) for made, goal in zip(tried, goals, strict=True)]
    found = collect_findings([*stages, stages[-1], stage(4).replace(outcome=None)])
    assert [(one.goal, one.text, one.passed) for one in found] == [
        ("one", "outcome 1", True), ("two", "outcome 2", False), ("two", "outcome 3", False),
    ]  # fmt: skip


def test_an_episode_holds_decisions_and_process_rewards_and_no_utility() -> None:
    made = to_episode([stage(), stage(1, ("io", EARLY_EXIT), verdict="refine")])
    assert made is not None
    assert [one.layered.layers for one in made.decisions] == [(("io",),), (("io", EARLY_EXIT),)]
    assert (made.process, made.reward) == ((1.0, 0.0), None)
    assert to_episode([]) is None


def test_what_a_stage_changed() -> None:
    before = state(subtask(1), subtask(2))
    after = state(subtask(1, "completed"), subtask(2, refinements=1))
    assert describe_change(before, after) == (
        "[s1] pending -> completed: goal 1",
        "[s2] sent back, try 2 is next: goal 2",
    )


def test_the_pools() -> None:
    four, seven = (make_initial_team(PROMPTS, tools=("search",), config=EvomasConfig(pool=size)) for size in (4, 7))
    assert set(four.agents_by_id) == set(FOUR)
    assert set(seven.agents_by_id) == set(SEVEN)
    assert to_layers(four.topology) == (("io",), ("web_search",), ("ensemble",))
    assert [one.id for one in seven.agents if one.tools] == ["web_browser", "web_search"]


def test_d23_prompts_of_the_pool_name_only_what_their_kind_of_agent_does() -> None:
    brought = {agent.id: set(find_skills(agent.prompt)) for agent in pool("search")}
    assert {name: skills for name, skills in brought.items() if skills} == {
        "multi_generate": {"compare"},
        "web_search": {"look up", "read"},
        "web_browser": {"read"},
    }


def test_roles_of_the_pool_name_no_counting_which_only_our_tasks_ask_for() -> None:
    assert [agent.id for agent in pool("search") if "count" in find_skills(agent.role)] == []


@pytest.mark.parametrize("tool", sorted(READY))
def test_d20_tools_that_compute_go_to_io_as_there_is_nothing_to_search(tool: str) -> None:
    agents = {agent.id: agent for agent in pool(tool)}
    assert [agent.id for agent in agents.values() if agent.tools] == ["io"]
    assert find_masked_agents(OPEN, [*agents.values()]) == {EARLY_EXIT, "web_search", "web_browser"}
    assert "ithout tools" not in agents["io"].role + agents["io"].prompt
    assert "with your tools" in agents["io"].prompt
    both = {agent.id: agent for agent in pool("search", tool)}
    assert both["web_search"].tools == ("search", tool)
    assert "without tools: from the text" in both["io"].prompt


def test_the_browser_holds_what_opens_pages() -> None:
    made = make_initial_team(PROMPTS, tools=("search", "open_url"), pages=("browse",))
    assert made.agents_by_id["web_search"].tools == ("search",)
    assert made.agents_by_id["web_browser"].tools == ("browse", "search", "open_url")
    assert make_initial_team(PROMPTS, tools=("browse",)).agents_by_id["web_search"].tools == (
        "browse",
    )  # better than nothing
    assert find_browsing_tools(["search", "fetch_page", "calculator"]) == ("fetch_page",)


def test_rows_begin_with_the_active_subtask_and_leave_out_what_says_nothing() -> None:
    first = to_rows(state(subtask(1)))
    assert first == ("Active subtask: goal 1", f"Objective: {OBJECTIVE}")
    assert to_rows(state(subtask(1), hint="x"), whole=False) == (f"Objective: {OBJECTIVE}",)  # without a task state
    later = to_rows(
        state(
            subtask(1, "completed", artifact="1,280 m " * 100),
            subtask(2, refinements=1, trouble="incomplete"),
            subtask(3),
            assessment=Assessment(verdict="refine", confidence=0.5, feedback="incomplete"),
            hint="search again",
        )
    )
    assert [row.partition(":")[0] for row in later] == [
        "Active subtask", "Refinement", "Objective", "Completed subtasks", "Still to do", "Last verdict", "Next stage",
    ]  # fmt: skip
    assert max(map(len, later)) < 700


def test_agents_are_told_the_whole_state_and_nothing_twice() -> None:
    sent_back = subtask(2, trouble="half of it", attempt="one length: 691 m", refinements=1)
    told = format_state(state(subtask(1, "completed", artifact="1,280 m"), sent_back))
    assert told == (
        "Plan:\n[s1] DONE: goal 1\n[s2] NEED-REFINE: this part\n\nResult of [s1]:\n1,280 m\n\n"
        "The last try at this part:\none length: 691 m\n\n"
        "Why the last try at this part was sent back: half of it"
    )
    assert "[s1] TODO: what to judge\n" in format_state(state(subtask(1), sent_back), here="what to judge")
    assert format_state(state(subtask(1))) == ""  # task and subtask stand beside it


def test_d26_agents_read_plan_and_results_and_neither_verdicts_nor_history() -> None:
    failed = subtask(1, "failed", trouble="no page names the year")
    judged = Assessment(verdict="fail", confidence=0.87, feedback="what the reviewer said last")
    past = HistoryEntry(subtask="s1", layers=(("io",), ("ensemble",)), verdict="fail")
    now = state(failed, subtask(2, "completed", artifact="691 m"), subtask(3), assessment=judged, history=(past,))
    assert (
        format_state(now)
        == "Plan:\n[s1] FAILED: goal 1\n[s2] DONE: goal 2\n[s3] TODO: this part\n\nResult of [s2]:\n691 m"
    )
    assert "no page names the year" in format_plan(now)
    assert any("what the reviewer said last" in row for row in to_rows(now))


def test_a_summary_stands_where_results_are_cut() -> None:
    long = "The bridge crosses the river in two spans. " * 130

    def told(text: str) -> str:
        done = (subtask(number, "completed", artifact=text) for number in (1, 2, 3))
        return format_state(state(*done, subtask(4), summary="In short."))

    brief, cut = told("1,280 m"), told(long)
    assert "In short." not in brief
    assert "Summary of the results: In short." in cut
    assert cut.count("in two spans. [...]") == 3


@pytest.mark.parametrize(
    ("subtasks", "active", "told"),
    [
        ((subtask(1), subtask(1)), None, "subtasks repeat an id: s1, s1"),
        ((subtask(1, "completed"), subtask(2)), "s1", "the active subtask 's1' is not among the pending ones"),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(
    subtasks: tuple[Subtask, ...], active: str | None, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        state(*subtasks, active=active)


@pytest.mark.parametrize(
    ("layers", "probabilities", "told"),
    [
        ((("io",),), ({"io": 0.5}, {"io": 0.5}), "1 layers have 2 probabilities"),
        ((("io", "io"),), (), "none of them twice, not"),
        (((),), (), "a layer holds at least one agent"),
    ],
)
def test_layers_that_cannot_have_been_drawn_are_refused(layers: object, probabilities: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        LayeredWorkflow.model_validate({"layers": layers, "probabilities": probabilities})


@pytest.mark.parametrize("role", [ROLES["io"], COMPUTING_IO])
def test_the_planner_reads_of_io_what_its_prompt_has_it_do(role: str) -> None:
    prompt = PROMPTS.text("io", means="")
    assert ("break" in role, "rests on" in role) == ("break" in prompt, "rests on" in prompt) == (False, True)


PROGRAM = "\n".join(["```python", *(f"def part_{number}() -> int: ..." for number in range(6)), "```"])
HANDED_ON = [
    Message(source=f"L1-{name}", target="x", text=f"{name} wrote\n{PROGRAM}") for name in ("io", "multi_generate")
]


def test_a_program_of_several_agents_stands_once_in_an_outcome() -> None:
    outcome = aggregate(HANDED_ON)
    assert outcome.count(PROGRAM) == 1
    assert outcome.endswith("[multi_generate]\nmulti_generate wrote\n(the same as that of io)")


async def test_an_agent_reads_a_program_of_several_agents_once() -> None:
    read = list[Message]()

    async def note(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        read.extend(inbox)
        return Step(node=scope.node, agent=agent.id)

    act = make_stage_runner({"worker": note}, state(), whole=False)
    await act(Agent(id="web_search", role="r", prompt="p"), Question(id="q", input="?"), HANDED_ON, scope=Scope())
    assert [mail.text.count("part_3") for mail in read] == [1, 0]
