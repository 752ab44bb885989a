"""A call that fails alone, and a provider that answers nobody."""

import asyncio
import json

import pytest

from selfwire.core.errors import BudgetError, ModelError, OutageError
from selfwire.core.scope import Scope
from selfwire.core.usage import Budget
from selfwire.models.budget import Ledger, enforce_deadline
from selfwire.store.journal import Journal
from tests.models.wired import ASKED, QUICK, metered
from tests.wire.server import Body, Fault, WireServer, broken, refused

PROBING = QUICK.replace(probe=True, retries=1)


def greetings_fail(body: Body) -> Fault | None:
    return broken() if "hello?" in json.dumps(body["messages"]) else None


@pytest.mark.parametrize("fault", [broken(), refused()])
async def test_a_provider_that_answers_nobody_is_an_outage(wire_server: WireServer, fault: Fault) -> None:
    wire_server.always = fault
    journal, ledger = Journal.memory(), Ledger()
    with pytest.raises(OutageError, match="it does not answer anything else either"):
        await metered(wire_server, PROBING, journal=journal, ledger=ledger).generate(ASKED, scope=Scope())
    assert (journal.spend().calls, ledger.spent.calls) == (0, 0)
    [row] = await journal.rows("model")
    assert row.state == "failed"


async def test_a_provider_that_refuses_everything_by_status_400_has_a_wrong_key(
    wire_server: WireServer,
) -> None:
    """As Google does."""
    wire_server.always = Fault(status=400, message="API key not valid")
    with pytest.raises(OutageError, match=r"API key not valid.* else either: check the address, the key"):
        await metered(wire_server, PROBING).generate(ASKED, scope=Scope())


async def test_a_call_that_fails_alone_is_no_outage_and_the_probe_is_paid_for(wire_server: WireServer) -> None:
    wire_server.picky = greetings_fail
    ledger = Ledger()
    with pytest.raises(ModelError, match="2 attempt"):
        await metered(wire_server, PROBING, ledger=ledger).generate(ASKED, scope=Scope())
    assert ledger.spent.calls == 1
    assert len(wire_server.asked) == 3


async def test_without_a_probe_nothing_more_is_sent(wire_server: WireServer) -> None:
    wire_server.always = broken()
    with pytest.raises(ModelError):
        await metered(wire_server, QUICK.replace(retries=1)).generate(ASKED, scope=Scope())
    assert len(wire_server.asked) == 2


async def test_probes_are_requests_under_the_limits(wire_server: WireServer) -> None:
    wire_server.always = broken()
    limited = PROBING.replace(retries=0, backoff=0.0, concurrency=2, requests_per_minute=600, tokens_per_minute=10**6)
    await asyncio.gather(
        *(metered(wire_server, limited).generate(ASKED, scope=Scope(task=task)) for task in "ab"),
        return_exceptions=True,
    )
    times = [one.at for one in wire_server.asked]
    assert len(times) == 6
    assert times[-1] - times[0] >= 5 * 0.1 - 0.05


async def test_answers_to_others_meanwhile_are_answers(wire_server: WireServer) -> None:
    probes: list[Body] = []

    def unlucky(body: Body) -> Fault | None:
        if "ready" in json.dumps(body["messages"]):
            probes.append(body)
            return broken()
        return greetings_fail(body)

    wire_server.picky = unlucky
    model = metered(wire_server, PROBING.replace(backoff=1.0, retries=0))

    async def other() -> None:
        while not probes:  # noqa: ASYNC110 - it happens in the server's thread
            await asyncio.sleep(0.005)
        await model.generate([ASKED[0]], scope=Scope(task="other"))

    failed, _ = await asyncio.gather(model.generate(ASKED, scope=Scope()), other(), return_exceptions=True)
    assert type(failed) is ModelError


async def test_a_deadline_cuts_off_what_waits_and_says_so() -> None:
    with pytest.raises(BudgetError, match=r"\d+\.\d+ of 0\.05 seconds spent"):
        async with enforce_deadline(Ledger(Budget(seconds=0.05))):
            await asyncio.sleep(600)
    async with enforce_deadline(Ledger(Budget(calls=1))):
        pass


async def test_a_deadline_passes_on_timeouts_that_are_not_its_own() -> None:
    with pytest.raises(TimeoutError):
        async with enforce_deadline(Ledger(Budget(seconds=600))):
            raise TimeoutError
