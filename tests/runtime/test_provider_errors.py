"""What a provider's error says about another try."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest

from selfwire.runtime import openai_client
from selfwire.runtime.openai_client import ClientPerLoop
from selfwire.runtime.provider_errors import retry_after


def asked_to_wait(until: str) -> float | None:
    error = RuntimeError("slow down")
    error.response = SimpleNamespace(headers={"retry-after": until})  # type: ignore[attr-defined]
    return retry_after(error)


def test_a_provider_names_seconds_or_a_time() -> None:
    assert asked_to_wait("7.5") == 7.5
    assert asked_to_wait("-3") == 0
    in_an_hour = asked_to_wait(format_datetime(datetime.now(UTC) + timedelta(hours=1)))
    assert in_an_hour is not None
    assert 3000 < in_an_hour <= 3600
    assert asked_to_wait(format_datetime(datetime.now(UTC) - timedelta(hours=1))) == 0


@pytest.mark.parametrize("nonsense", ["soon", "", "Wed, 99 Nov 2026 99:00:00 GMT", "Wed, 25 Nov 2026 12:00:00"])
def test_a_time_that_is_none_is_no_wish(nonsense: str) -> None:
    assert asked_to_wait(nonsense) is None


async def test_a_client_that_could_not_be_made_is_made_by_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sending:
        async def send(self, request: str) -> str:
            return f"sent {request}"

        async def aclose(self) -> None:
            pass

    faults = [OSError("no certificates")]

    def make(**options: object) -> Sending:
        if faults:
            raise faults.pop()
        return Sending()

    monkeypatch.setattr(openai_client, "DefaultAsyncHttpxClient", make)
    client = ClientPerLoop.__new__(ClientPerLoop)
    with pytest.raises(OSError, match="no certificates"):
        await client.send("one")
    assert await client.send("two") == "sent two"
