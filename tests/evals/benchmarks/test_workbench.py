"""WorkBench's operations and its grader, over all right calls and over perturbed ones."""

import copy
import json
from collections import Counter

import pytest

from selfwire.core.errors import GradingError, ToolError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.values import to_plain_json
from selfwire.evals.benchmarks import workbench
from selfwire.evals.benchmarks.benchmark import split_into_components
from selfwire.evals.benchmarks.workbench import has_same_state, load_office, parse_calls
from selfwire.tools.workbench.calls import parse_call
from selfwire.tools.workbench.operations import OPERATIONS
from selfwire.tools.workbench.tables import Tables
from tests.benchmark_data import needs_data
from tests.evals.benchmarks.sweeps import graded, solved, unsolved

pytestmark = needs_data


def listing(*calls: str) -> str:
    return "I have looked it up.\n\nCalls:\n" + "\n".join(calls or ("none",))


def right(task: Task) -> list[str]:
    return list(to_plain_json(task.reference))


def told(call: str, tables: Tables | None = None) -> str:
    return parse_call(call).run(tables or load_office().copy())


@pytest.mark.slow
async def test_right_calls_have_full_marks_and_others_none() -> None:
    tasks, environment = workbench.load_tasks(), workbench.ENVIRONMENT
    assert Counter(task.kind for task in tasks) == {
        "analytics": 120, "calendar": 110, "email": 90, "customer_relationship_manager": 80, "project_management": 80,
    }  # fmt: skip
    assert unsolved(await graded(environment, tasks, lambda task: listing(*right(task)))) == {}
    more = 'email.delete_email(email_id="00000001")'
    assert solved(await graded(environment, tasks, lambda task: listing(*right(task), more))) == 0


@pytest.mark.slow
async def test_doing_nothing_scores_where_nothing_changes_and_missing_calls_do_not() -> None:
    tasks, environment = workbench.load_tasks(), workbench.ENVIRONMENT
    idle = await graded(environment, tasks, lambda task: workbench.workbench().baseline.answer(task.input))
    empty = {task.id for task in tasks if not task.reference}
    assert len(empty) == 81
    done = {name for name, feedback in idle.items() if feedback.solved}
    assert empty < done
    assert len(done) == 83  # two requests ask for what is so already
    several = [task for task in tasks if len(task.reference) > 1]
    assert solved(await graded(environment, several, lambda task: listing(*right(task)[:-1]))) == 0


async def test_case_counts_where_it_must() -> None:
    async def after(call: str, gold: str) -> bool:
        return (await assessed(listing(call), gold)).solved

    gold = (
        'customer_relationship_manager.update_customer.func(customer_id="00000048", field="notes", new_value="Hello")'
    )
    assert await after(gold.replace("Hello", "hELLO"), gold)
    assert not await after(gold.replace("Hello", "Hell"), gold)
    status = gold.replace("notes", "status").replace("Hello", "Lost")
    assert await after(status, status)
    assert not await after(status.replace("Lost", "lost"), status)


async def assessed(answer: str, *gold: str) -> Feedback:
    return await workbench.ENVIRONMENT.grade(Task(id="t", input="?", reference=list(gold)), answer, scope=Scope())


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        ("Calls: none", []),
        ("Calls:\n(none)", []),
        ("**Calls:**\n- `a(x='1')`\n2. b(y=\"2.\")\n", ["a(x='1')", 'b(y="2.")']),
        ("Calls:\nold()\n\ncalls:\n```python\nnew();\n```", ["new()"]),
        ("Calls: a()\nb()", ["a()", "b()"]),
        ("no such line", None),
        ("My calls were none", None),
    ],
)
def test_the_calls_below_the_last_mark_count(answer: str, calls: list[str] | None) -> None:
    assert parse_calls(answer) == calls


GOLD = 'calendar.delete_event.func(event_id="00000256")'


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", 'Format fault: there is no line "Calls:".'),
        (GOLD, 'Format fault: there is no line "Calls:".'),
        (listing("I deleted it."), "Format fault: 'I deleted it' is no call."),
        (listing("calendar.remove_event(event_id='1')"), "there is no operation 'calendar_remove_event'."),
        (listing(GOLD, GOLD.replace("event_id", "id")), "has no parameter 'id'"),
        (listing(*[GOLD] * 101), "101 calls are listed"),
        (listing(), "After the 0 listed changes the tables are not as the request wants them."),
        (listing("calendar_delete_event(event_id='7')"), "calendar_delete_event was refused: there is no row"),
        (listing("calendar_search_events(query='x')"), "After the 0 listed changes"),
    ],
)
async def test_feedback_says_what_the_calls_tell(answer: str, said: str) -> None:
    feedback = await assessed(answer, GOLD)
    assert (feedback.score, feedback.solved) == (0, False)
    assert said in feedback.text
    assert "00000256" not in feedback.text


async def test_a_refused_call_has_no_effect_and_does_no_harm() -> None:
    assert (await assessed(listing("email_delete_email(email_id='99999999')", GOLD), GOLD)).solved


@pytest.mark.parametrize("reference", [None, "x", ["no call"], ['calendar.delete_event(event_id="7")'], [3]])
async def test_a_reference_that_cannot_be_run_is_an_error_and_no_zero(reference: object) -> None:
    with pytest.raises(GradingError):
        await workbench.ENVIRONMENT.grade(Task(id="t", input="?", reference=reference), listing(), scope=Scope())


def test_requests_in_other_words_are_on_one_side() -> None:
    groups = split_into_components(workbench.load_tasks())
    [deleted] = [group for group in groups if any("Delete my first meeting on December 13" in t.input for t in group)]
    assert {task.input.split("\n")[0] for task in deleted} == {
        "Delete my first meeting on December 13", "Cancel my first meeting on December 13",
    }  # fmt: skip
    assert len(groups) == 458


def test_no_operation_changes_the_office_itself() -> None:
    before = copy.deepcopy(load_office())
    for task in workbench.load_tasks()[::7]:
        for call in right(task):
            told(call)
    assert load_office() == before


async def test_a_planted_reference_never_shows_in_feedback() -> None:
    canary = 'email.send_email(recipient="x@y.z", subject="zanzibarquux", body="zanzibarquux")'
    for answer in ("", listing(), listing(GOLD), listing("x"), listing("email_send_email(recipient='x')")):
        assert "zanzibar" not in (await assessed(answer, canary)).model_dump_json()


# One case per operation, worked out by hand from the tables' files.


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("company_directory.find_email_address(name='Kofi')", '["kofi.mensah@atlas.com"]'),
        ("calendar.get_event_information_by_id(event_id='00000013', field='duration')", '{"duration": "90"}'),
        ("email.get_email_information_by_id(email_id='00000373', field='inbox/outbox')", '{"inbox/outbox": "inbox"}'),
        ("project_management.get_task_information_by_id(task_id='00000149', field='board')", '{"board": "Front end"}'),
        ("analytics.traffic_source_count(time_min='2024-01-01')", "{}"),
        (
            "analytics.create_plot(time_min='a', time_max='b', value_to_plot='total_visits', plot_type='bar')",
            "plots/a_b_total_visits_bar.png",
        ),
        ("email.search_emails(query='no such word anywhere')", "Nothing was found."),
    ],
)
def test_look_ups(call: str, answer: str) -> None:
    assert told(call) == answer


def test_searches_filter_sort_and_stop_at_five() -> None:
    events = json.loads(told("calendar.search_events(query='LUIS', time_max='2023-08-01 23:59:59')"))
    assert [event["event_id"] for event in events] == ["00000013"]
    mails = json.loads(told("email.search_emails(query='task update leila', date_max='2023-11-20')").split("\n")[0])
    assert mails == sorted(mails, key=lambda mail: mail["sent_datetime"], reverse=True)
    assert len(json.loads(told("email.search_emails(query='sam')").split("\n")[0])) == 5
    found = told("project_management.search_tasks(assigned_to_email='leila', due_date='2023-11-27')")
    tasks = json.loads(found.split("\n")[0])
    assert {task["assigned_to_email"] for task in tasks} == {"leila.azizi@atlas.com"}
    search = "customer_relationship_manager.search_customers"
    customers = json.loads(told(f"{search}(customer_name='quinn harris', follow_up_by_max='2023-12-14')"))
    assert [one["customer_id"] for one in customers] == ["00000107"]


def test_figures_are_per_day() -> None:
    total = json.loads(told("analytics.total_visits_count(time_min='2023-11-20', time_max='2023-11-22')"))
    engaged = json.loads(told("analytics.engaged_users_count(time_min='2023-11-20', time_max='2023-11-22')"))
    parts = [
        json.loads(told(f"analytics.traffic_source_count('2023-11-20', '2023-11-22', '{source}')"))
        for source in ("direct", "referral", "search engine", "social media")
    ]
    assert list(total) == ["2023-11-20", "2023-11-21", "2023-11-22"]
    for day in total:
        visits = [one for one in load_office().visits if one["date_of_visit"] == day]
        assert total[day] == len(visits) == sum(part[day] for part in parts)
        assert engaged[day] == sum(one["user_engaged"] == "True" for one in visits)
    mean = json.loads(told("analytics.get_average_session_duration('2023-11-20', '2023-11-20')"))
    seconds = [float(v["session_duration_seconds"]) for v in load_office().visits if v["date_of_visit"] == "2023-11-20"]
    assert mean["2023-11-20"] == pytest.approx(sum(seconds) / len(seconds))
    assert json.loads(told("analytics.get_visitor_information_by_id(visitor_id='0860')"))[0]["page_views"] == "8"


def test_changes_change_what_they_say() -> None:
    tables = load_office().copy()
    last = max(int(mail["email_id"]) for mail in tables.emails)
    told("email.forward_email(email_id='00000373', recipient='Kofi.Mensah@atlas.com')", tables)
    told("email.reply_email(email_id='00000373', body='Thanks')", tables)
    forwarded, reply = tables.emails[-2:]
    first = next(mail for mail in load_office().emails if mail["email_id"] == "00000373")
    assert forwarded == {
        "email_id": f"{last + 1:08d}", "inbox/outbox": "outbox", "sender/recipient": "kofi.mensah@atlas.com",
        "subject": f"FW: {first['subject']}", "sent_datetime": "2023-11-30 00:00:00", "body": first["body"],
    }  # fmt: skip
    assert (reply["sender/recipient"], reply["subject"]) == (first["sender/recipient"], first["subject"])
    told("project_management.update_task(task_id='00000149', field='list_name', new_value='Completed')", tables)
    assert tables.tasks[0]["list_name"] == "Completed"
    told("project_management.delete_task(task_id='00000149')", tables)
    assert len(tables.tasks) == 299
    number = told("customer_relationship_manager.add_customer('A B', 'raj.patel@atlas.com', 'Lead')", tables)
    assert tables.customers[-1]["customer_id"] == number == "00000200"
    assert tables.customers[-1]["customer_email"] == ""
    told("customer_relationship_manager.delete_customer(customer_id='00000200')", tables)
    assert tables.customers == load_office().customers


@pytest.mark.parametrize(
    "call",
    [
        "company_directory.find_email_address(name='Zanzibar')",
        "calendar.update_event(event_id='00000013', field='place', new_value='here')",
        "calendar.update_event(event_id='00000013', field='participant_email', new_value='luis')",
        "calendar.get_event_information_by_id(event_id='00000013')",
        "email.send_email(recipient='kofi', subject='a', body='b')",
        "analytics.create_plot(time_min='a', time_max='b', value_to_plot='visits', plot_type='bar')",
        "analytics.create_plot(time_min='a', time_max='b', value_to_plot='total_visits', plot_type='pie')",
        "analytics.get_visitor_information_by_id(visitor_id='none')",
        "project_management.search_tasks()",
        "project_management.create_task('a', 'nobody@atlas.com', 'Backlog', '2023-12-01', 'Design')",
        "project_management.update_task(task_id='00000149', field='list_name', new_value='completed')",
        "project_management.update_task(task_id='00000149', field='board', new_value='Sales')",
        "customer_relationship_manager.search_customers()",
        "customer_relationship_manager.update_customer(customer_id='00000048', field='status', new_value='Maybe')",
        "customer_relationship_manager.update_customer('00000048', 'product_interest', 'Cars')",
        "customer_relationship_manager.add_customer(customer_name='A B')",
    ],
)
def test_what_the_office_refuses(call: str) -> None:
    tables = load_office().copy()
    with pytest.raises(ToolError):
        told(call, tables)
    assert has_same_state(tables, load_office())


def test_agents_hold_all_operations() -> None:
    benchmark = workbench.workbench()
    assert set(benchmark.tools) == set(benchmark.toolbox) == set(OPERATIONS)
