"""Saved teams: versions, head, history, rollback, and files that are not a library."""

import asyncio
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from selfwire.core.agent import Agent
from selfwire.core.edits import (
    AddEdge,
    AddNode,
    AddTool,
    Grant,
    RemoveEdge,
    Revoke,
    Rewiring,
    RewritePrompt,
    RewriteTool,
)
from selfwire.core.errors import ConfigError, LibraryError
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.models.embeddings import HUB_ID, _find_cached_folder
from selfwire.models.tracing import ELSEWHERE, ENDPOINTS, KEYS, silence_tracing
from selfwire.store import files
from selfwire.store.files import get_blob, put_blob, read_team, write_team
from selfwire.store.library import Library, _tell_of_others, open_library, refuse_foreign
from selfwire.store.trust import CONFIG_HOME, make_mark
from tests import processes
from tests.core.generators import SOURCES, make_tool
from tests.store.spoiled import make_foreign, make_newer, scribble, truncate

SEED = Team(
    method="hiva",
    agents=(Agent(id="plan", prompt="Plan."), Agent(id="answer", prompt="Answer.", tools=("search",))),
    topology=make_chain("plan", "answer"),
    memory={"beliefs": {"plan": [1, 1]}},
)


def grown(team: Team, prompt: str) -> Team:
    return team.apply(Rewiring(RewritePrompt("plan", prompt), why=f"try {prompt}"))


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def library(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Library]:
    homes = {"memory": ":memory:", "sqlite": str(tmp_path / "home")}
    with open_library(homes.get(request.param) or request.getfixturevalue("postgres_address")) as opened:
        yield opened


@pytest.mark.slow
def test_several_processes_share_a_library_in_postgres(
    postgres_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELFWIRE_LIBRARY", postgres_address)
    with open_library(tmp_path) as library:
        asyncio.run(library.save("archive", SEED, run="r1", step=0))
        told = library.where
    script = "import asyncio; from selfwire.store.library import open_library as o; "
    script += "l = o(); print(asyncio.run(l.load('archive')).fingerprint); l.close()"
    elsewhere = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert elsewhere.stdout.strip() == SEED.fingerprint
    assert not list(tmp_path.iterdir())
    assert "@" not in told


async def test_large_bytes_go_with_their_version_and_come_back_in_another_process(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [bytes([number]) * 2_000_000 for number in range(2)]
    for step, one in enumerate(data):
        await library.save("archive", SEED.with_memory(router={"weights": put_blob(one)}), run="r", step=step)
    monkeypatch.setattr(files, "_kept", type(files._kept)())  # as in a new process
    for ref, one in (("archive", data[1]), ("archive@0", data[0])):
        assert get_blob((await library.load(ref)).memory["router"]["weights"]) == one
    await library.rollback("archive", "r.0")
    assert (await library.load("archive")).memory["router"]["weights"] == put_blob(data[0])


def test_memory_holds_the_latest_bytes_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_kept", type(files._kept)())
    monkeypatch.setattr(files, "KEPT_BYTES", 1000)
    few = [put_blob(bytes([number]) * 400) for number in range(8)]
    assert get_blob(few[0])  # so many are kept, however large
    put_blob(b"more")
    assert files.find_blob(few[0]) is not None  # it was asked for last
    assert files.find_blob(few[1]) is None
    small = [put_blob(bytes([number])) for number in range(100)]
    assert all(map(files.find_blob, small))


def test_a_library_at_an_address_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFWIRE_LIBRARY", "mysql://user:secret@h/db")
    with pytest.raises(ConfigError, match=r"a postgres:// address, not mysql://\.\.\."):
        open_library()


async def test_a_saved_workflow_comes_back_with_its_lineage(library: Library) -> None:
    child = grown(SEED, "Plan well.")
    saved = await library.save("archive", child, run="7f3a", step=1, facts={"score": 0.5, "reasons": ["it helps"]})
    assert await library.load("archive") == child
    assert (await library.load("archive")).lineage.parent == SEED.fingerprint
    assert (saved.ref, saved.facts["score"], saved.facts["reasons"]) == ("archive@7f3a.1", 0.5, ("it helps",))


async def test_every_kind_of_reference_finds_its_version(library: Library, tmp_path: Path) -> None:
    first, second = SEED, grown(SEED, "Think first.")
    await library.save("archive", first, run="r1", step=0)
    await library.save("archive", second, run="r1", step=1)
    write_team(first, tmp_path / "first.json")
    references = {
        "archive": second,
        "archive@r1.0": first,
        "archive@0": first,
        first.fingerprint: first,
        second.fingerprint[:6]: second,
        str(tmp_path / "first.json"): first,
    }
    assert {ref: await library.load(ref) for ref in references} == references


async def test_saving_the_same_step_again_changes_nothing(library: Library) -> None:
    first = await library.save("archive", SEED, run="r1", step=0, facts={"score": 0.1})
    assert await library.save("archive", SEED, run="r1", step=0, facts={"score": 0.9}) == first
    assert (await library.history("archive")).versions == (first,)


async def test_a_version_never_changes(library: Library) -> None:
    await library.save("archive", SEED, run="r1", step=0)
    with pytest.raises(LibraryError, match=rf"archive@r1.0 holds team {SEED.fingerprint} already"):
        await library.save("archive", grown(SEED, "Other."), run="r1", step=0)
    assert await library.load("archive") == SEED


async def test_rollback_moves_the_head_and_history_shows_it(library: Library) -> None:
    for step, team in enumerate([SEED, grown(SEED, "A"), grown(SEED, "B")]):
        await library.save("archive", team, run="r1", step=step)
    await library.rollback("archive", "r1.0")
    history = await library.history("archive")
    assert await library.load("archive") == SEED
    assert history.head == "r1.0"
    assert [v.version for v in history.versions] == ["r1.0", "r1.1", "r1.2"]
    assert [(move.source, move.target) for move in history.rollbacks] == [("r1.2", "r1.0")]


async def test_resaving_after_a_rollback_leaves_the_head(library: Library) -> None:
    await library.save("archive", SEED, run="r1", step=0)
    await library.save("archive", grown(SEED, "A"), run="r1", step=1)
    await library.rollback("archive", "0")
    await library.save("archive", grown(SEED, "A"), run="r1", step=1)
    assert (await library.head("archive")).version == "r1.0"


async def test_a_rejected_candidate_is_kept_but_not_the_head(library: Library) -> None:
    await library.save("archive", SEED, run="r1", step=0, facts={"accepted": False})
    await library.save("archive", grown(SEED, "A"), run="r1", step=1, facts={"accepted": False})
    history = await library.history("archive")
    assert (history.head, len(history.versions)) == ("r1.0", 2)


async def test_a_tag_names_a_version_and_may_move(library: Library) -> None:
    await library.save("archive", SEED, run="r1", step=0)
    await library.save("archive", grown(SEED, "A"), run="r1", step=1)
    await library.tag("archive", "r1.1", "best")
    await library.tag("archive", "r1.0", "best")
    assert await library.load("archive@best") == SEED
    assert await library.tags("archive") == {"best": "r1.0"}


async def test_tools_are_saved_rolled_back_and_diffed_with_the_workflow(library: Library) -> None:
    held = SEED.apply(Rewiring(AddTool(make_tool()), Grant("plan", "add"), why="a sum is needed", by="plan"))
    rewritten = held.apply(Rewiring(RewriteTool("add", SOURCES[2]), why="one too few"))
    for step, team in enumerate((held, rewritten)):
        await library.save("archive", team, run="r1", step=step)
    assert await library.load("archive") == rewritten
    assert [
        change.field for change in (await library.load("archive")).diff(await library.load("archive@r1.0")).tools
    ] == [
        "source",
        "version",
        "why",
    ]
    await library.rollback("archive", "r1.0")
    assert await library.load("archive") == held


async def test_diff_tells_topology_prompts_tools_and_memory(library: Library) -> None:
    child = SEED.apply(
        Rewiring(
            AddNode("again", "plan"),
            RemoveEdge("plan", "answer"),
            AddEdge("plan", "again"),
            AddEdge("again", "answer"),
            RewritePrompt("plan", "Plan twice."),
            Revoke("answer", "search"),
            why="try",
        )
    ).with_memory(beliefs={"plan": [2, 1]}, synergy={})
    await library.save("a", SEED, run="r", step=0)
    await library.save("b", child, run="r", step=0)
    diff = (await library.load("b")).diff(await library.load("a"))
    assert [node.id for node in diff.topology.added_nodes] == ["again"]
    assert [str(edge) for edge in diff.topology.removed_edges] == ["plan->answer"]
    changed = [(c.agent, c.field, c.before, c.after) for c in diff.agents]
    assert changed == [("answer", "tools", ("search",), ()), ("plan", "prompt", "Plan.", "Plan twice.")]
    assert diff.memory == ("beliefs", "synergy")
    assert not (await library.load("a")).diff(await library.load("a"))


async def test_a_missing_name_lists_close_ones(library: Library) -> None:
    await library.save("archive-hiva", SEED, run="r", step=0)
    with pytest.raises(LibraryError, match=r"no team 'archiv-hiva'.*did you mean archive-hiva\?"):
        await library.load("archiv-hiva")


@pytest.mark.parametrize("ref", ["../x", "a b", "", "nothing@r.1", "@", "abcdef", "name@"])
async def test_no_reference_fits_by_accident(library: Library, ref: str) -> None:
    await library.save("archive", SEED, run="r", step=0)
    with pytest.raises(LibraryError, match="there is no team"):
        await library.load(ref)


@pytest.mark.parametrize(("wanted", "found", "others"), [("0", "r1.0", "r2.0"), ("r1", "r1.1", "r1.0")])
async def test_of_several_versions_the_newest_is_meant_and_the_others_are_named(
    library: Library, caplog: pytest.LogCaptureFixture, wanted: str, found: str, others: str
) -> None:
    _tell_of_others.cache_clear()
    for run in ("r2", "r1"):  # in the order of time, not of names
        await library.save("archive", grown(SEED, run), run=run, step=0)
    await library.save("archive", grown(SEED, "A"), run="r1", step=1)
    assert (await library.find(f"archive@{wanted}")).version == found
    said = f"archive@{wanted} is the newest of several, archive@{found}; the others are {others}"
    assert [record.getMessage() for record in caplog.records] == [said]


@pytest.mark.parametrize(
    ("name", "run", "facts"), [("a.b", "r", {}), ("a", "r/1", {}), ("a", "r", {"score": float("nan")})]
)
async def test_what_does_not_validate_is_not_saved(
    library: Library, name: str, run: str, facts: dict[str, float]
) -> None:
    with pytest.raises(ValueError, match=r"."):
        await library.save(name, SEED, run=run, step=0, facts=facts)
    assert await library.names() == ()


async def test_more_versions_than_a_page_are_all_listed(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfwire.store.library._PAGE", 20)
    for step in range(43):
        await library.save("archive", SEED, run="r", step=step)
    assert [v.step for v in (await library.history("archive")).versions] == list(range(43))


async def test_a_store_that_is_passed_in_is_used_async_and_left_open() -> None:
    class AsyncOnly(InMemoryStore):
        def batch(self, ops: object) -> list[object]:  # type: ignore[override]
            raise AssertionError("a blocking call")

    store: BaseStore = AsyncOnly()
    with Library(store) as library:
        await library.save("archive", SEED, run="r", step=0)
    assert await Library(store).load("archive") == SEED


async def test_the_event_loop_turns_while_the_library_waits(tmp_path: Path) -> None:
    with open_library(tmp_path) as library:
        await library.save("archive", SEED, run="r", step=0)
        lock = sqlite3.connect(tmp_path / "library.sqlite", isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
        saving = asyncio.create_task(library.save("archive", SEED, run="r", step=1))
        await asyncio.sleep(0.05)
        assert not saving.done()
        lock.execute("COMMIT")
        lock.close()
        assert (await saving).step == 1


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    open_library(tmp_path / "deep" / "home").close()
    assert stat.S_IMODE((tmp_path / "deep" / "home" / "library.sqlite").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "deep" / "home").iterdir()] == ["library.sqlite"]


def test_a_file_system_without_hard_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr("os.link", refuse)
    open_library(tmp_path / "home").close()
    open_library(tmp_path / "home").close()
    assert stat.S_IMODE((tmp_path / "home" / "library.sqlite").stat().st_mode) == 0o600


def test_the_home_is_argument_then_environment_then_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SELFWIRE_HOME", str(tmp_path / "env"))
    open_library(tmp_path / "argument").close()
    open_library().close()
    monkeypatch.delenv("SELFWIRE_HOME")
    open_library().close()
    assert sorted(p.parent.name for p in tmp_path.rglob("library.sqlite")) == [".selfwire", "argument", "env"]


def test_a_user_without_a_home_has_no_config_folder_and_none_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_none(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CONFIG_HOME", CONFIG_HOME):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", find_none)
    assert make_mark("a run") == ""
    assert not silence_tracing()
    assert not [*tmp_path.iterdir()]


def test_a_folder_called_as_the_home_is_the_home_of_no_user_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = tmp_path / "~" / ".cache/huggingface/hub" / f"models--{HUB_ID.replace('/', '--')}"
    (weights / "refs").mkdir(parents=True)
    (weights / "refs" / "main").write_text("of-another-user")
    (weights / "snapshots" / "of-another-user").mkdir(parents=True)
    (tmp_path / "~" / ".langsmith").mkdir()
    (tmp_path / "~" / ".langsmith" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    for name in ("HF_HOME", "HF_HUB_CACHE", *KEYS, *ENDPOINTS, *ELSEWHERE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setattr("selfwire.models.tracing.configure", lambda **_: None)
    assert silence_tracing()
    assert _find_cached_folder() is None


async def test_reading_a_library_that_is_not_there_makes_none(tmp_path: Path) -> None:
    with open_library(tmp_path / "home", create=False) as library:
        with pytest.raises(LibraryError, match="nothing has been saved there yet"):
            await library.load("archive")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("is_library", "spoil"),
    [
        (False, make_foreign),
        (False, lambda path: path.write_text("not a database, but longer than a header of one hundred bytes " * 3)),
        (False, Path.touch),
        (True, make_newer),
        (True, truncate),
        (True, scribble),
    ],
)
def test_a_corrupt_or_foreign_file_is_refused_and_left_alone(
    tmp_path: Path, is_library: bool, spoil: Callable[[Path], None]
) -> None:
    path = tmp_path / "library.sqlite"
    if is_library:
        open_library(tmp_path).close()
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(LibraryError, match=r"library\.sqlite (is|has) .*left as it is"):
        open_library(tmp_path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


async def test_a_body_that_was_tampered_with_is_refused(library: Library) -> None:
    await library.save("archive", SEED, run="r", step=0)
    item = await library.store.aget(("selfwire", "bodies"), SEED.fingerprint)
    assert item is not None
    item.value["workflow"]["method"] = "other"
    await library.store.aput(("selfwire", "bodies"), SEED.fingerprint, item.value)
    with pytest.raises(LibraryError, match="has been changed"):
        await library.load("archive")


async def test_an_entry_of_another_schema_is_refused(library: Library) -> None:
    await library.store.aput(("selfwire", "heads"), "archive", {"schema": 2, "version": "r.0"})
    with pytest.raises(LibraryError, match="entry of schema 2"):
        await library.load("archive")


def test_postgres_without_its_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"selfwire\[postgres\]"):
        open_library("postgres://user:secret@127.0.0.1/db")


def save_twenty_versions() -> None:
    """Save versions of a run into a home; both stand in `sys.argv`."""

    async def save(home: Path, run: str) -> None:
        with open_library(home) as library:
            for step in range(20):
                await library.save("archive", grown(SEED, f"{run} {step}"), run=run, step=step)

    asyncio.run(save(Path(sys.argv[1]), sys.argv[2]))


def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    function = "tests.store.test_library:save_twenty_versions"
    writers = [processes.start(function, str(tmp_path), run) for run in ("one", "two")]
    for writer in writers:
        processes.wait_for(writer)
    with open_library(tmp_path) as library:
        history = asyncio.run(library.history("archive"))
    assert sorted((v.run, v.step) for v in history.versions) == [(r, s) for r in ("one", "two") for s in range(20)]


async def test_a_team_of_a_graph_is_saved_without_blocking_a_server(tmp_path: Path) -> None:
    with open_library(tmp_path) as library, blockbuster_ctx():  # raises where `langgraph dev` would
        saved = await library.save("mine", SEED.replace(method="shop_app.py:graph"), run="r", step=0)
    assert saved.mark


def test_an_exported_file_reads_back_and_a_bad_one_says_where(tmp_path: Path) -> None:
    path = tmp_path / "workflow.json"
    write_team(grown(SEED, "A"), path)
    assert read_team(path) == grown(SEED, "A")
    path.write_text('{"method": "hiva"}')
    with pytest.raises(LibraryError, match=r"workflow\.json is not an exported team: agents: Field required"):
        read_team(path)
    with pytest.raises(LibraryError, match=r"none\.json cannot be read: No such file or directory$"):
        read_team(tmp_path / "none.json")


GONE = "sha256:" + "0" * 64


async def test_bytes_that_are_not_here_are_neither_saved_nor_exported(library: Library, tmp_path: Path) -> None:
    team = SEED.with_memory(router={"weights": GONE})
    with pytest.raises(LibraryError, match=r"refers to sha256:000000000000\.\.\., which is not loaded"):
        await library.save("archive", team, run="r", step=0)
    assert await library.names() == ()
    with pytest.raises(LibraryError, match="are not loaded; load the team from its library"):
        write_team(team, tmp_path / "workflow.json")
    assert not (tmp_path / "workflow.json").exists()


async def test_a_version_whose_body_is_gone_is_named(library: Library) -> None:
    await library.save("archive", SEED, run="r", step=0)
    await library.store.adelete(("selfwire", "bodies"), SEED.fingerprint)
    with pytest.raises(LibraryError, match=r"the body of archive@r\.0 is missing from library"):
        await library.load("archive")


async def test_a_prefix_of_two_fingerprints_names_both(library: Library) -> None:
    await library.save("archive", SEED, run="r", step=0)
    item = await library.store.aget(("selfwire", "versions", "archive"), "r.0")
    assert item is not None
    alike = SEED.fingerprint[:6] + "".join(reversed(SEED.fingerprint[6:]))
    entry = {**item.value, "version": {**item.value["version"], "fingerprint": alike, "step": 1}}
    await library.store.aput(("selfwire", "versions", "archive"), "r.1", entry)
    with pytest.raises(LibraryError, match=f"is ambiguous; it begins .*{SEED.fingerprint}"):
        await library.load(SEED.fingerprint[:6])


def test_a_library_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "library.sqlite").mkdir()
    with pytest.raises(LibraryError, match=r"library\.sqlite cannot be opened: .*Is a directory"):
        open_library(tmp_path)


def test_a_library_whose_rows_break_its_own_rules_is_refused(tmp_path: Path) -> None:
    with open_library(tmp_path) as library:
        asyncio.run(library.save("archive", SEED, run="r", step=0))
    with closing(sqlite3.connect(tmp_path / "library.sqlite")) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'ttl_minutes REAL', 'ttl_minutes REAL NOT NULL')"
        )
        connection.commit()
    with pytest.raises(LibraryError, match=r"library\.sqlite is corrupt: NULL value in store\.ttl_minutes; it is left"):
        open_library(tmp_path)


def test_a_library_whose_writer_was_killed_in_a_commit_opens_as_before(tmp_path: Path) -> None:
    with open_library(tmp_path) as library:
        asyncio.run(library.save("archive", SEED, run="r", step=0))
    killed = tmp_path / "killed"
    killed.mkdir()
    with closing(sqlite3.connect(tmp_path / "library.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")  # so that the file is changed before the commit
        connection.execute("BEGIN")
        connection.execute("UPDATE store SET value = zeroblob(100000)")
        for file in tmp_path.glob("library.sqlite*"):
            shutil.copy(file, killed)
    assert sorted(file.name for file in killed.iterdir()) == ["library.sqlite", "library.sqlite-journal"]
    with open_library(killed) as library:
        assert asyncio.run(library.load("archive")) == SEED
    assert [file.name for file in killed.iterdir()] == ["library.sqlite"]


def test_an_export_without_its_bytes_or_with_others_says_which_file_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = SEED.with_memory(router={"weights": put_blob(b"weights of a router")})
    with pytest.raises(LibraryError, match=r"team cannot be written to .*No such file or directory"):
        write_team(team, tmp_path / "none" / "workflow.json")
    path = tmp_path / "workflow.json"
    (beside,) = write_team(team, path)
    monkeypatch.setattr(files, "_kept", type(files._kept)())  # as in a new process
    beside.write_bytes(b"others")
    with pytest.raises(LibraryError, match=f"{beside.name} is not what .* refers to; export the team again"):
        read_team(path)
    beside.unlink()
    with pytest.raises(LibraryError, match=f"needs {beside.name} beside it"):
        read_team(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("SQLITE_BUSY", "in use by another process: .*; try again"),
        ("SQLITE_READONLY_ROLLBACK", "half written, .* allow writing to it and to its folder"),
        ("SQLITE_CORRUPT", "is corrupt: .*; it is left as it is"),
    ],
)
def test_a_file_that_cannot_be_checked_now_is_not_called_corrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    open_library(tmp_path).close()
    fault = sqlite3.OperationalError("it does not work")
    fault.sqlite_errorname = name

    def fail(*arguments: object, **options: object) -> sqlite3.Connection:
        raise fault

    monkeypatch.setattr(sqlite3, "connect", fail)
    with pytest.raises(LibraryError, match=message):
        refuse_foreign(tmp_path / "library.sqlite")


def test_a_library_that_another_process_holds_is_said_to_be_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_library(tmp_path).close()
    monkeypatch.setattr("selfwire.store.library.PATIENCE", 0.1)
    with closing(sqlite3.connect(tmp_path / "library.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LibraryError, match="in use by another process"):
            refuse_foreign(tmp_path / "library.sqlite")
