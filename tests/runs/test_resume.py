"""Evolutions that stop early, by whatever cause, lose nothing: resumed, they end like one that was not disturbed."""

import asyncio
import json
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from selfwire.models.providers import make_chat_model
from selfwire.store.library import open_library
from tests import kills, processes
from tests.commands import call
from tests.wire.server import Body, Fault, WireServer, broken, hanging, refused, served

pytestmark = pytest.mark.slow
RETRIES = ("--retries", "0")


@pytest.fixture(scope="module")
def server() -> Iterator[WireServer]:
    with WireServer(served(make_chat_model("offline"))) as server:
        yield server


@pytest.fixture(autouse=True)
def _healthy(server: WireServer) -> Iterator[None]:
    yield
    server.faults.clear()
    server.always, server.delay, server.picky = None, 0.0, lambda body: None


@pytest.fixture(scope="module")
def whole(server: WireServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[kills.Result, int, Path]:
    """The evolution that nothing disturbs: its result, its requests and its home."""
    home = tmp_path_factory.mktemp("whole")
    before = len(server.asked)
    call(home, *kills.beginning(server, kills.TINY))
    return asyncio.run(kills.result(home)), len(server.asked) - before, home


def stopped(home: Path, *arguments: str) -> Result:
    """A call that ends early and says how to go on, with nothing learned or scored that is not so in the end."""
    called = call(home, *arguments, code=3)
    assert called.stderr.startswith("stopped: ")
    assert f"go on with: selfwire evolve --resume {kills.run_of(home)}" in called.stdout
    return called


def begins(home: Path, expected: kills.Result) -> None:
    """What is there so far is a part of the undisturbed result: no score of zero, no version beside it."""
    found = asyncio.run(kills.result(home))
    assert found.versions == expected.versions[: len(found.versions)]
    for place, scores in found.scores.items():
        assert scores.items() <= expected.scores[place].items()


def test_killed_evolutions_end_as_if_nobody_had_killed_them(
    server: WireServer, whole: tuple[kills.Result, int, Path], tmp_path: Path
) -> None:
    expected, requests, _ = whole
    for number, point in enumerate((requests // 4, 2 * requests // 3)):
        points = (point, point + 5, point + 17)
        found = kills.killed(tmp_path / str(number), server, kills.TINY, points, expected)
        assert found.differs == ()
        assert 0 <= found.extra - requests <= sum(found.open_calls)


@pytest.mark.every(2)
@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.5, 0.7, 0.95])
def test_an_outage_in_whatever_phase_teaches_nothing_and_loses_nothing(
    server: WireServer, whole: tuple[kills.Result, int, Path], tmp_path: Path, share: float
) -> None:
    expected, requests, _ = whole
    server.faults.extend([Fault()] * int(share * requests))
    server.always = broken()
    called = stopped(tmp_path, *kills.beginning(server, kills.TINY), *RETRIES)
    assert "it does not answer anything else either" in called.stderr
    begins(tmp_path, expected)
    stopped(tmp_path, *kills.resumption(tmp_path))  # it is still down
    server.always = None
    call(tmp_path, *kills.resumption(tmp_path))
    assert asyncio.run(kills.result(tmp_path)) == expected


@pytest.mark.parametrize("fault", [refused(), hanging(600)], ids=["refused", "hanging"])
def test_a_key_that_is_refused_and_a_provider_that_hangs(
    server: WireServer, whole: tuple[kills.Result, int, Path], tmp_path: Path, fault: Fault
) -> None:
    expected, requests, _ = whole
    server.faults.extend([Fault()] * (requests // 2))
    server.always = fault
    stopped(tmp_path, *kills.beginning(server, kills.TINY), *RETRIES, "--timeout", "2")
    begins(tmp_path, expected)
    server.always = None
    call(tmp_path, *kills.resumption(tmp_path))
    assert asyncio.run(kills.result(tmp_path)) == expected


def test_a_server_that_goes_away_and_comes_back(whole: tuple[kills.Result, int, Path], tmp_path: Path) -> None:
    expected, requests, _ = whole
    with WireServer(served(make_chat_model("offline"))) as first:
        leaving = threading.Thread(target=_leave, args=(first, requests // 3))
        leaving.start()
        stopped(tmp_path, *kills.beginning(first, kills.TINY), *RETRIES)
        leaving.join()
    begins(tmp_path, expected)
    with WireServer(served(make_chat_model("offline")), port=first.port):
        call(tmp_path, *kills.resumption(tmp_path))
    assert asyncio.run(kills.result(tmp_path)) == expected


def _leave(server: WireServer, replies: int) -> None:
    while server.replied < replies:
        time.sleep(0.001)
    server.close()


def about(*questions: str) -> Callable[[Body], Fault | None]:
    """Requests that mention a question fail."""

    def fault(body: Body) -> Fault | None:
        said = json.dumps(body["messages"])
        return broken() if any(json.dumps(question)[1:-1] in said for question in questions) else None

    return fault


def test_single_tasks_that_fail_are_left_out_in_pairs_and_counted_apart(
    server: WireServer, whole: tuple[kills.Result, int, Path], tmp_path: Path
) -> None:
    home = whole[2]
    places = ("0/rollout/", "0/gate/incumbent", "0/test/before")
    questions = [asyncio.run(kills.questions(home, f"trajectories/{place}")) for place in places]
    server.picky = about(*(next(iter(found.values())) for found in questions))
    called = call(tmp_path, *kills.beginning(server, kills.TINY), *RETRIES)
    found = asyncio.run(kills.result(tmp_path))
    for scores in found.scores.values():
        assert [score is None for score in scores.values()] == [True, False, False, False]
    systems = (" seed team", " evolved team", " single agent")
    rows = [line.split() for line in called.stdout.splitlines() if line.startswith(systems)]
    assert [row[-1] for row in rows] in (["1"] * 3, ["1"] * 4)  # the seed with votes, if it may ask twice
    assert f"paired over {len(questions[2]) - 1} tasks" in called.stdout
    with open_library(tmp_path, create=False) as library:
        gate = asyncio.run(library.head(kills.NAME)).facts["gate"]
    assert (gate["compared"], gate["left_out"]) == (3, 1)


def test_a_profile_that_fails_while_learning_stops_nothing(server: WireServer, tmp_path: Path) -> None:
    failed: list[Body] = []

    def fault(body: Body) -> Fault | None:
        if "TaskProfile" not in json.dumps(body.get("response_format")):
            return None
        failed.append(body)
        return broken()

    server.picky = fault
    call(tmp_path, *kills.beginning(server, kills.TINY), *RETRIES, "--set", "kabb=false")
    assert failed


def test_a_budget_of_calls_is_raised_on_resume(
    server: WireServer, whole: tuple[kills.Result, int, Path], tmp_path: Path
) -> None:
    expected, _, _ = whole
    called = stopped(tmp_path, *kills.beginning(server, kills.TINY), "--budget-calls", "65")
    assert "of 65 calls spent" in called.stderr
    assert f"the run has stopped before its end; the team so far is '{kills.NAME}'" in called.stdout
    begins(tmp_path, expected)
    asked = len(server.asked)
    stopped(tmp_path, *kills.resumption(tmp_path))
    stopped(tmp_path, *kills.resumption(tmp_path), "--budget-calls", "65")
    assert len(server.asked) == asked
    call(tmp_path, *kills.resumption(tmp_path), "--budget-calls", "2000")
    assert asyncio.run(kills.result(tmp_path)) == expected


def test_a_seed_team_is_the_one_of_the_start_though_its_name_means_another_by_now(
    server: WireServer, whole: tuple[kills.Result, int, Path], tmp_path: Path
) -> None:
    given = (*kills.beginning(server, kills.TINY), *RETRIES, "--team", kills.NAME, "--seed", "1")
    homes = [tmp_path / "undisturbed", tmp_path / "stopped"]
    for home in homes:
        home.mkdir()
        shutil.copy(whole[2] / "library.sqlite", home)
    before = len(server.asked)
    call(homes[0], *given)
    server.faults.extend([Fault()] * int(0.8 * (len(server.asked) - before)))
    server.always = broken()
    assert "iteration 1/1" in stopped(homes[1], *given).stdout  # what it has saved has moved the name
    server.always = None
    call(homes[1], *kills.resumption(homes[1]))
    expected, found = (asyncio.run(kills.result(home)) for home in homes)
    assert found == expected


def test_a_budget_of_seconds_cuts_off_what_hangs_and_outlasts_a_stop(
    server: WireServer, whole: tuple[kills.Result, int, Path], tmp_path: Path
) -> None:
    expected, requests, _ = whole
    server.faults.extend([Fault()] * (requests // 4))
    server.always = hanging(600)
    called = stopped(tmp_path, *kills.beginning(server, kills.TINY), "--budget-seconds", "3")
    assert "of 3.00 seconds spent" in called.stderr
    server.always = None
    asked = len(server.asked)
    stopped(tmp_path, *kills.resumption(tmp_path))
    assert len(server.asked) == asked
    call(tmp_path, *kills.resumption(tmp_path), "--budget-seconds", "6000")
    assert asyncio.run(kills.result(tmp_path)) == expected


def interrupted(server: WireServer, home: Path, replies: int) -> processes.Process:
    """An evolution that gets Ctrl-C after some replies, while requests are in flight."""
    before = server.replied
    process = kills.start(home, *kills.beginning(server, kills.TINY))
    while server.replied - before < replies or not server.active:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    return process


def test_ctrl_c_waits_for_the_requests_in_flight_which_are_not_sent_again(
    server: WireServer, whole: tuple[kills.Result, int, Path], tmp_path: Path
) -> None:
    expected, requests, _ = whole
    asked = len(server.asked)
    server.faults.extend([Fault()] * (requests // 4))
    server.always = Fault(hang=2)
    process = interrupted(server, tmp_path, requests // 4)
    out, errors = processes.wait_for(process, code=130)
    assert f"go on with: selfwire evolve --resume {kills.run_of(tmp_path)}" in out
    assert "without a reply" not in out
    assert errors.startswith("stopping: up to 30 seconds for the replies to ")
    assert errors.endswith("\nstopped\n")
    assert asyncio.run(kills.open_calls(tmp_path)) == 0
    assert 0 < len(server.asked) - asked < requests
    server.always = None
    call(tmp_path, *kills.resumption(tmp_path))
    assert asyncio.run(kills.result(tmp_path)) == expected
    assert len(server.asked) - asked == requests


def test_a_second_ctrl_c_cancels_requests_and_says_how_to_go_on(
    server: WireServer, whole: tuple[kills.Result, int, Path], tmp_path: Path
) -> None:
    expected, requests, _ = whole
    server.faults.extend([Fault()] * (requests // 4))
    server.always = hanging(600)
    cancelled = server.cancelled
    process = interrupted(server, tmp_path, requests // 4)
    while "stopping" not in process.errors.read_text():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, errors = processes.wait_for(process, code=130)
    assert f"go on with: selfwire evolve --resume {kills.run_of(tmp_path)}" in out
    assert errors.endswith("\nstopped\n")
    while server.active:  # all of them notice, or this test hangs
        time.sleep(0.01)
    assert server.cancelled > cancelled
    server.always = None
    call(tmp_path, *kills.resumption(tmp_path))
    assert asyncio.run(kills.result(tmp_path)) == expected
