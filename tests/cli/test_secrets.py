"""No secret of an address or a key is stored or shown, and a run that needs them is resumed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from selfwire.cli.commands import STOPPED, WRONG
from selfwire.core import text
from selfwire.models import providers
from selfwire.models.providers import make_chat_model
from selfwire.runs.evolution import OpenEvolution
from tests.commands import call
from tests.wire.server import Fault, WireServer, served

USER, KEY, API_KEY = "pa55-w0rd", "q-4711-abc", "f00ba4-f00ba4"
SMALL = tuple("--gate mean --train 2 --gate-size 2 --test 2 --iterations 1 --batch 1 --gate-tasks 1".split())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    monkeypatch.setattr(providers, "_whole", {})
    monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
    with WireServer(served(make_chat_model("offline"))) as one:
        yield one


def whole(server: WireServer) -> str:
    return f"http://me:{USER}@127.0.0.1:{server.port}/v1?api_key={KEY}"


def find_secrets(home: Path, *results: Result) -> list[str]:
    texts = [(str(path), path.read_bytes()) for path in home.rglob("*") if path.is_file()]
    texts += [("shown", f"{one.stdout}{one.stderr}{one.exception}".encode()) for one in results]
    return [f"{secret} in {name}" for name, text in texts for secret in (USER, KEY, API_KEY) if secret.encode() in text]


def test_an_evolution_keeps_no_secret_and_is_resumed_with_the_address_of_the_environment(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ("--model", "openai:mine", "--base-url", whole(server), "--embedder", "hashing", "--retries", "0")
    monkeypatch.setattr(OpenEvolution, "find_evolved", lambda run: run.library.head(run.config.name))
    first = call(
        tmp_path, "evolve", "hera", "--benchmark", "archive", *SMALL, *model, "--budget-calls", "3", code=STOPPED
    )
    assert find_secrets(tmp_path, first) == []
    assert 'os.environ["SELFWIRE_BASE_URL"]' in first.stdout
    monkeypatch.setattr(providers, "_whole", {})  # another process
    run = next((tmp_path / "runs").iterdir()).name
    refused = call(tmp_path, "evolve", "--resume", run, code=WRONG)
    assert "set SELFWIRE_BASE_URL to the whole address" in refused.stderr
    other = call(tmp_path, "evolve", "--resume", run, SELFWIRE_BASE_URL="http://me:other@127.0.0.1:9/v1", code=WRONG)
    assert "is another one" in other.stderr
    before = len(server.asked)
    resumed = call(
        tmp_path, "evolve", "--resume", run, "--budget-calls", "55", SELFWIRE_BASE_URL=whole(server), code=STOPPED
    )
    assert len(server.asked) > before
    assert find_secrets(tmp_path, first, refused, other, resumed) == []


def test_a_server_that_repeats_a_secret_is_not_quoted(tmp_path: Path, server: WireServer) -> None:
    server.always = Fault(status=401, message=f"bad {USER}, {KEY} and {API_KEY} in {whole(server)}")
    model = ("--model", "openai:mine", "--base-url", whole(server), "--embedder", "hashing", "--retries", "0")
    keyed = ("--model", "openai:a", "--base-url", f"http://me:{USER}@?key={KEY}")
    shown = [
        call(tmp_path, "run", "dytopo", "Who?", *model, code=WRONG),
        call(tmp_path, "eval", "dytopo", "--benchmark", "archive", "--tasks", "2", *model, code=WRONG),
        call(tmp_path, "run", "dytopo", "Who?", *keyed, code=WRONG),
    ]
    assert "***" in shown[0].stderr, shown[0].stderr
    assert find_secrets(tmp_path, *shown) == []


def test_an_address_is_masked_where_its_secrets_are_and_nowhere_else() -> None:
    masked = text.mask_address("http://me:a%2Fbcd@h/v1?api-version=2024&code=1&sig=abcd&x_token=wxyz#k")
    assert masked == "http://***@h/v1?api-version=2024&code=1&sig=***&x_token=***#k"
    assert text.mask_secrets("a/bcd me:a%2Fbcd abcd wxyz 2024") == "*** *** *** *** 2024"
    assert text.mask_address(masked) == masked


@pytest.mark.parametrize("user", ["postgres", "postgres:postgres"])
def test_a_user_who_is_called_like_the_database_is_masked_in_no_later_address(user: str) -> None:
    assert text.mask_address(f"postgresql://{user}@h/db") == "postgresql://***@h/db"
    assert text.mask_secrets("no server at postgresql://h/db") == "no server at postgresql://h/db"
