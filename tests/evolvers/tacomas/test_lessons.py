"""Structural lessons: what changes did to scores, and nothing of an instance."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, AddEdge, AddNode, Remember, ReplaceAgent, Rewiring, RewritePrompt
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import to_plain_json
from selfwire.evolvers.tacomas.config import SlowConfig
from selfwire.evolvers.tacomas.lessons import (
    ChangeLesson,
    derive_lessons,
    describe_changes,
    get_lessons,
    render_lessons,
    with_lessons,
)
from selfwire.evolvers.tacomas.rounds import TacomasRound
from selfwire.evolvers.tacomas.schemas import AgentFeedback, BirthDeathPair, EdgeEdit, NewAgent, SlowUpdate
from selfwire.evolvers.tacomas.slow import enforce_budgets
from tests.evolvers.tacomas.doubles import PROMPTS, QUESTION, team

SHORTCUT = Rewiring(AddEdge("searcher", "reflector"), why="", operation="EDGE_ADD")
SEEKER = Agent(id="tas-press-seeker", prompt="Find Tas Press.", tools=("search", "secret"))


def a_run(*scores: float | None, applied: tuple[Rewiring, ...] = (SHORTCUT,), error: str | None = None) -> Trajectory:
    rounds = [
        TacomasRound(number=n, goal="", score=score, slow=True, applied=applied) for n, score in enumerate(scores)
    ]
    notes = {"rounds": [one.model_dump(mode="json") for one in rounds]}
    return Trajectory(question=QUESTION, workflow="w", answer=None if error else "a", error=error, notes=notes)


def test_a_change_is_described_by_roles_and_tools_only() -> None:
    replaced = Rewiring(ReplaceAgent("calculator", SEEKER), why="Tas Press", operation="REPLACE")
    assert describe_changes(replaced, ["search"]) == "calculator replaced by a newcomer with search"
    born = Rewiring(AddAgent(SEEKER), AddNode(SEEKER.id, SEEKER.id), why="", operation="BIRTH")
    assert describe_changes(born, []) == "birth of a newcomer without tools"
    wired = Rewiring(AddEdge(SEEKER.id, "reflector"), why="", operation="EDGE_ADD")
    assert describe_changes(wired, []) == "edge added a newcomer -> reflector"
    told = Rewiring(RewritePrompt("searcher", "Tas"), Remember("searcher", "Tas"), why="", operation="FEEDBACK")
    assert describe_changes(told, []) == ""


def test_gains_by_hand() -> None:
    learned = with_lessons(team(), [a_run(0.25, 0.75, 0.5), a_run(0.5, 0.5)], tools=[])
    [lesson] = get_lessons(learned)
    assert (lesson.change, lesson.times, lesson.gain) == ("edge added searcher -> reflector", 3, 0.25)
    assert lesson.mean_gain == 0.0625
    assert get_lessons(with_lessons(learned, [a_run(0.0, 1.0)], tools=[]))[0].times == 4
    assert learned.topology == team().topology


def test_a_round_without_a_score_and_a_run_with_an_error_teach_nothing() -> None:
    assert with_lessons(team(), [a_run(0.5, None, 0.5), a_run(0.1, 0.9, error="down")], tools=[]) == team()


def test_the_meta_model_is_shown_the_strongest_lessons() -> None:
    lessons = [ChangeLesson(change=f"c{n}", times=1, gain=n / 10) for n in range(-3, 5)]
    shown = render_lessons(lessons).splitlines()
    assert shown[0] == "c4: 1 times, mean change of the score +0.40"
    assert [line[:2] for line in shown] == ["c4", "c-", "c3", "c-", "c2"]
    assert render_lessons([]) == ""


TEXT = st.text(alphabet="qxjvz", min_size=5, max_size=10).map(lambda text: f"zq{text}")


@settings(max_examples=60, deadline=None)
@given(TEXT, TEXT, TEXT, st.sampled_from([None, "calculator", "searcher"]))
def test_no_text_of_an_instance_is_in_a_lesson(role: str, goal: str, said: str, dead: str | None) -> None:
    update = SlowUpdate(
        birth_death_pairs=[BirthDeathPair(v_dead=dead, v_new=NewAgent(role=role, goal=goal, tools=["search", said]))],
        graph_edit=[EdgeEdit(op="edge_add", source=role, target="reflector")],
        agent_feedback=[AgentFeedback(agent="planner", prompt_delta=said, memory_seed=said)],
        global_rationale=said,
    )
    delta = enforce_budgets(team(), update, config=SlowConfig(), prompts=PROMPTS, tools=("search", "calculator"))
    assert delta.applied
    learned: Team = with_lessons(team(), [a_run(0.2, 0.8, applied=delta.applied)], tools=["search"])
    assert get_lessons(learned)
    stored = json.dumps(to_plain_json(learned.memory))
    assert not any(text in stored for text in (role, goal, said))
    assert derive_lessons([], []) == []
