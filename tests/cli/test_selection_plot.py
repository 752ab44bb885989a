"""The picture of selection probabilities, and the command that draws it."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from selfwire.cli.commands import WRONG
from selfwire.cli.memory import WIDTH, draw_bar, draw_selection, write_svg
from selfwire.core.errors import ConfigError
from selfwire.evolvers.router.probing import Selection
from selfwire.models.sync import run_sync
from selfwire.store.library import open_library
from tests.cli.test_run import refuse_all_but_probes
from tests.commands import call
from tests.graphs.test_learned_router import team
from tests.wire.server import WireServer

FOUND = (
    Selection(stage=0, layer=0, probabilities={"io": 0.75, "search": 0.25}, chosen=("io",)),
    Selection(stage=0, layer=1, probabilities={"io": 0.1, "search": 0.9}, chosen=("search", "io")),
)


def test_a_bar_is_as_long_as_its_shares() -> None:
    drawn = draw_bar({"a": 0.25, "b": 0.5, "c": 0.25}, {"a": "red", "b": "blue", "c": "green"}, width=8)
    assert [len(drawn.plain[span.start : span.end]) for span in drawn.spans] == [2, 4, 2]
    assert len(draw_bar({"a": 0.333, "b": 0.333, "c": 0.334}, dict.fromkeys("abc", "red"))) == WIDTH


def test_the_picture_names_the_most_probable_and_the_drawn(tmp_path: Path) -> None:
    console = Console(record=True, width=130, file=StringIO())
    console.print(draw_selection({"update 1": FOUND}))
    text = console.export_text()
    assert "update 1" in text
    assert "search 0.90" in text
    assert "search, io" in text
    write_svg({"update 1": FOUND}, tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_text().startswith("<svg")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_svg({"update 1": FOUND}, tmp_path / "none" / "picture.svg")


@pytest.mark.slow
def test_training_and_then_its_selections_from_the_command_line(tmp_path: Path) -> None:
    small = ["--updates", "2", "--batch", "8", "--train", "4", "--test", "2", "--checkpoint-every", "1"]
    trained = call(tmp_path, "train", "evomas", "--benchmark", "archive", *small)
    assert "update 2/2: reward" in trained.output
    assert "untrained" in trained.output
    assert "mean score" in trained.output
    told = ["--training", "--json", "--svg", str(tmp_path / "p.svg")]
    shown = call(tmp_path, "selection", "evomas-archive", "Who?", "--benchmark", "archive", *told)
    unwritten = ["--svg", str(tmp_path / "none" / "p.svg"), "--set", "stages=1", "--benchmark", "archive"]
    refused = call(tmp_path, "selection", "evomas-archive", "Who?", *unwritten, code=WRONG)
    assert "the picture cannot be written to" in refused.output
    versions = json.loads(shown.stdout)["selection"]
    assert [name.rpartition(".")[2] for name in versions] == ["1", "2"]
    for found in versions.values():
        for one in found:
            assert sum(one["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_the_router_of_any_method_is_shown(tmp_path: Path) -> None:
    with open_library(tmp_path) as library:
        run_sync(library.save("team", team(), run="r", step=1))
    told = ["--training", "--embedder", "hashing", "--json", "--svg", str(tmp_path / "p.svg")]
    for _ in range(2):
        shown = call(tmp_path, "selection", "team", 'How deep is the "sea"?', *told)
    [[one]] = json.loads(shown.stdout)["selection"].values()
    assert one["probabilities"].keys() == {"fish", "wood"}
    assert one["probabilities"]["fish"] > one["probabilities"]["wood"]


def test_a_team_whose_tools_are_missing_is_refused_with_the_way_out(tmp_path: Path) -> None:
    held = team().agents[0].replace(tools=("search",))
    with open_library(tmp_path) as library:
        run_sync(library.save("team", team().replace(agents=(held, *team().agents[1:])), run="r", step=1))
    done = call(tmp_path, "selection", "team", "Who?", "--embedder", "hashing", code=WRONG)
    assert "team 'team' holds search; lend the tools with --benchmark or --tools" in done.stderr


def test_a_run_that_fails_before_anything_is_chosen_says_why(tmp_path: Path, wire_server: WireServer) -> None:
    with open_library(tmp_path) as library:
        run_sync(library.save("team", team(), run="r", step=1))
    wire_server.picky = refuse_all_but_probes
    told = ["--model", "openai:mine", "--base-url", wire_server.url, "--embedder", "hashing"]
    done = call(tmp_path, "selection", "team", "How deep is the sea?", *told, code=WRONG)
    assert done.stderr.startswith("error: the run ended before anything was chosen: ")
    assert "no such luck" in done.stderr


def test_bad_input_is_said_in_a_line(tmp_path: Path) -> None:
    for arguments, told in (
        (["train", "dytopo", "--benchmark", "archive"], "dytopo has no router to train"),
        (["train", "evomas"], "train needs a method and --benchmark"),
        (["train", "hiva", "--benchmark", "archive", "--paper"], "--paper would change nothing in the router of hiva"),
        (["train", "evomas", "--benchmark", "archive", "--set", "sampling.mass=0"], "mass"),
        (["train", "evomas", "--benchmark", "archive", "--set", "sampling.mass=1.5"], "mass"),
    ):
        assert told in call(tmp_path, *arguments, "--home", str(tmp_path), code=WRONG).output
    assert not list(tmp_path.iterdir())
