"""The graph `evolve` of `langgraph dev`: a run of `selfwire evolve --approve edits`, whose questions Studio asks.

    START -> go_on -> [it waits for a person] ask -> go_on -> ... -> END

The run's own folder holds what is done, so that a wait outlives the server, and another thread or the command line may
give the answer.
"""

from contextvars import Context
from typing import Annotated, Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import interrupt
from pydantic import Field
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.errors import ConfigError
from selfwire.graphs.approval import ApprovalQuestion, parse_answer
from selfwire.graphs.evolve import find_question
from selfwire.models.sync import run_sync
from selfwire.runs.evolution import OpenEvolution, resume_evolution
from selfwire.runs.record import JOURNAL, get_run_folder, load_request
from selfwire.runs.spec import EvolveSpec


class StudioInput(TypedDict):
    """Input: the name of a run, as `selfwire runs` lists it."""

    run: Annotated[str, Field(description="Run of `selfwire evolve --approve edits`, as `selfwire runs` lists it.")]


class StudioState(TypedDict, total=False):
    """State of a thread.

    Keys:
        question: that the run waits with, as `ApprovalQuestion`; None where it does not wait.
        answer: to this question, as `ApprovalAnswer`.
        version: reference of the team, once the run is finished; None if nothing was evolved.
        fault: why the last answer was not used, where no question says it; "" if it was.
    """

    run: str
    question: dict[str, Any] | None
    answer: Any
    version: str | None
    fault: str


def go_on(state: StudioState) -> StudioState:
    """Run the evolution until it waits for a person or is finished.

    Raises:
        ConfigError: there is no such run, or its changes are not to be approved.
        BudgetError, OutageError, ModelError: it stopped early; the thread goes on if it is invoked again.
    """
    return Context().run(_go_on, state)  # or the run's own graph would be a part of this one


def _go_on(state: StudioState) -> StudioState:
    run = state.get("run", "")
    if not load_request(get_run_folder(None, run) / JOURNAL, EvolveSpec, "evolve").evolution.approve:
        raise ConfigError(f"run {run!r} asks nobody; go on with `selfwire evolve --resume {run}`")
    fault = ""
    with resume_evolution(run) as opened:
        question = find_question(run_sync(opened.execute()))
        if state.get("question") and state.get("answer"):
            asked = ApprovalQuestion.model_validate(state["question"])
            if question and question.replace(fault="") == asked.replace(fault=""):
                question = find_question(run_sync(opened.execute(answer=state["answer"])))
            else:  # it belongs to no later question
                fault = run_sync(_find_other_answer(opened, asked, state["answer"]))
        evolved = run_sync(opened.find_evolved())
    if question is not None:
        shown = question.replace(fault=fault or question.fault)
        return {"question": shown.model_dump(mode="json"), "answer": None}
    return {"question": None, "answer": None, "version": evolved.ref if evolved else None, "fault": fault}


async def _find_other_answer(opened: OpenEvolution, asked: ApprovalQuestion, answer: Any) -> str:
    """Say which other answer a question has had; "" if it was this one, as after a kill."""
    history = await opened.library.history(opened.config.name)
    saved = [v for v in history.versions if (v.run, v.step) == (opened.run, asked.iteration)]
    used = dict(saved[-1].facts.get("approval", {})) if saved else {}
    try:
        given = parse_answer(answer)
    except ConfigError:
        given = None
    if given and used and given.has_made(await opened.library.load(saved[-1].ref), used):
        return ""
    other = f" as {used['answer']!r} by {used['by']}" if used else ""
    word = given.answer if given else str(answer)[:100]
    return f"the question of iteration {asked.iteration} was answered already{other}; your answer {word!r} was not used"


def ask(state: StudioState) -> StudioState:
    """Ask a person, by an interrupt with the question."""
    return {"answer": interrupt(state["question"])}


def graph() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make the graph, which `langgraph.json` names."""
    made = StateGraph(StudioState, input_schema=StudioInput)
    made.add_node(go_on)
    made.add_node(ask)
    made.add_edge(START, "go_on")
    made.add_conditional_edges("go_on", lambda state: "ask" if state.get("question") else END, ["ask", END])
    made.add_edge("ask", "go_on")
    return made.compile(name="evolve")
