"""Every agent's turn has tables of its own, which follow from its calls alone."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage, Reply, ToolCall
from selfwire.core.errors import ToolError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.nodes.agent import make_agent_runner
from selfwire.store.journal import Journal
from selfwire.tools.own import JournalledTools
from selfwire.tools.workbench.calls import make_call
from selfwire.tools.workbench.desk import DESKS, Desks, make_desk_tools
from selfwire.tools.workbench.tables import Row, Tables

AT = Scope(run="r", task="t", node="solve")


def office() -> Tables:
    emails: list[Row] = []
    events: list[Row] = [
        {"event_id": f"{n:08d}", "event_name": f"Talk {n}", "participant_email": "ann@atlas.com",
         "event_start": f"2023-12-0{n} 09:00:00", "duration": "30"}
        for n in range(1, 9)
    ]  # fmt: skip
    return Tables(
        events=events, emails=emails, tasks=[], customers=[], visits=(), directory=("ann@atlas.com", "bob@atlas.com")
    )


async def used(name: str, scope: Scope, **arguments: str) -> str:
    return await TOOLS[name].run(arguments, scope=scope)


TOOLS = make_desk_tools(office)


async def test_an_agent_sees_its_own_changes_and_nobody_else_does() -> None:
    told = await used("calendar_delete_event", AT.at(node="solve#0.0"), event_id="00000001")
    assert told == 'The event was deleted.\nDone: calendar_delete_event(event_id="00000001")'
    mine = await used("calendar_search_events", AT.at(node="solve#1.0"), query="talk 1")
    assert mine == "Nothing was found."
    for other in (AT.at(node="check#1.0"), AT.at(node="solve#1.0", visit=1), AT.at(node="solve#1.0", sample=1)):
        assert "Talk 1" in await used("calendar_search_events", other, query="talk 1")


async def test_searches_show_five_rows_and_more_once_those_are_gone() -> None:
    scope = AT.at(task="five")
    first = await used("calendar_search_events", scope.at(node="solve#0.0"))
    assert first.endswith("3 more match; narrow the search to see them.")
    rows = json.loads(first.split("\n")[0])
    assert len(rows) == 5
    for number, row in enumerate(rows):
        await used("calendar_delete_event", scope.at(node=f"solve#1.{number}"), event_id=row["event_id"])
    rest = json.loads(await used("calendar_search_events", scope.at(node="solve#2.0")))
    assert [row["event_id"] for row in rest] == ["00000006", "00000007", "00000008"]


async def test_a_turn_that_is_run_again_starts_from_the_same_tables() -> None:
    scope = AT.at(task="again")
    for _ in range(2):
        new = await used(
            "calendar_create_event", scope.at(node="solve#0.0"), event_name="New", participant_email="Bob@atlas.com",
            event_start="2023-12-01 10:00:00", duration="30",
        )  # fmt: skip
        assert new.startswith("00000009\n")
        assert "bob@atlas.com" in await used(
            "calendar_get_event_information_by_id", scope.at(node="solve#0.1"), event_id="00000009",
            field="participant_email",
        )  # fmt: skip
    with pytest.raises(ToolError, match="there is no row whose event_id is '00000010'"):
        await used("calendar_delete_event", scope.at(node="solve#1.0"), event_id="00000010")


async def test_what_was_refused_changes_nothing() -> None:
    scope = AT.at(task="refused")
    for arguments in ({"event_name": "x"}, {"event_id": "00000001"}, {"nonsense": "1"}):
        with pytest.raises(ToolError):
            await used("calendar_create_event", scope.at(node="solve#0.0"), **arguments)
    wrong = {"event_name": "x", "participant_email": "ann", "event_start": "y", "duration": "30"}
    with pytest.raises(ToolError, match="no email address"):
        await used("calendar_create_event", scope.at(node="solve#0.0"), **wrong)
    assert "Nothing" in await used("calendar_search_events", scope.at(node="solve#1.0"), query="x")


def test_desks_that_were_left_long_ago_go() -> None:
    desks = Desks(office)
    gone = make_call("calendar_delete_event", {"event_id": "00000001"})
    for number in range(DESKS + 1):
        desks.run(gone, AT.at(node="solve#0.0", task=str(number)))
    again = make_call("calendar_search_events", {"query": "talk 1"})
    assert "Talk 1" in desks.run(again, AT.at(node="solve#1.0", task="0"))
    assert "Nothing" in desks.run(again, AT.at(node="solve#1.0", task=str(DESKS)))


class Scripted:
    def __init__(self, stop: int) -> None:
        self.stop = stop

    async def generate(self, messages: Sequence[ChatMessage], **_: Any) -> Reply:
        results = [one.content for one in messages if one.role == "tool"]
        if len(results) == self.stop:
            raise KeyboardInterrupt
        wishes: list[tuple[str, dict[str, str]]] = [
            ("calendar_search_events", {}),
            ("calendar_delete_event", {"event_id": "00000001"}),
            ("calendar_search_events", {"query": "talk 1"}),
        ]
        if len(results) == len(wishes):
            return Reply(content=results[-1])
        name, arguments = wishes[len(results)]
        return Reply(content="", tool_calls=(ToolCall(id=str(len(results)), name=name, arguments=arguments),))

    async def generate_structured(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("stop", [1, 2, 3])
async def test_a_run_that_goes_on_after_a_stop_finds_the_same_tables(stop: int) -> None:
    agent = Agent(id="solve", role="works", prompt="Work.", tools=tuple(TOOLS))
    journal = Journal.memory()
    act = make_agent_runner(Scripted(stop), JournalledTools(make_desk_tools(office), journal))
    with pytest.raises(KeyboardInterrupt):
        await act(agent, Question(id="t", input="?"), (), scope=AT)
    resumed = make_agent_runner(Scripted(99), JournalledTools(make_desk_tools(office), journal))  # as in a new process
    step = await resumed(agent, Question(id="t", input="?"), (), scope=AT)
    journal.close()
    assert step.output == "Nothing was found."
    assert [use.error for use in step.tools] == [False] * 3
