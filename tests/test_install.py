"""What an installation gets: the wheel and its page, the light requirements, and what runs without torch."""

import email
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.light_requirements import LARGE, PAGE, make_light_requirements
from tests.test_house import ROOT, TOP

BUILD = """
import os, sys
from setuptools import build_meta
build_meta.build_sdist("dist") if sys.argv[1] == "sdist" else build_meta.build_wheel("dist")
"""


CARRIED = ("CHANGELOG.md", "CITATION.cff")
"""Pages that an sdist has beside the sources."""


def build(kind: str, folder: Path) -> Path:
    """Build an sdist or a wheel in a folder; returns the file."""
    subprocess.run([sys.executable, "-c", BUILD, kind], cwd=folder, check=True, capture_output=True)
    [built] = (folder / "dist").iterdir()
    return built


@pytest.mark.slow
def test_the_wheel_of_the_sdist_holds_every_file_of_every_room(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    for room in TOP:
        shutil.copytree(ROOT / room, clone / room, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    shutil.copytree(ROOT / "src" / "selfwire", clone / "src" / "selfwire", symlinks=True)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", *CARRIED, "LICENSE", PAGE.name):
        shutil.copy(ROOT / name, clone)
    with tarfile.open(build("sdist", clone)) as sdist:
        sdist.extractall(tmp_path / "sdist", filter="data")
    [unpacked] = (tmp_path / "sdist").iterdir()
    for name in (*CARRIED, PAGE.name):
        assert (unpacked / name).read_text() == (ROOT / name).read_text()
    with zipfile.ZipFile(build("wheel", unpacked)) as wheel:
        inside = {name for name in wheel.namelist() if name.startswith("selfwire/")}
        [metadata] = [wheel.read(name) for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    own = ROOT / "src" / "selfwire"
    files = [path for room in TOP for path in (ROOT / room).rglob("*") if path.is_file()]
    wanted = {path.relative_to(ROOT).as_posix() for path in files}
    wanted |= {path.relative_to(own).as_posix() for path in own.rglob("*") if path.is_file()}
    assert {f"selfwire/{name}" for name in wanted if "__pycache__" not in name} == inside
    rooms = [path.name for path in own.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert {f"selfwire/{room}/py.typed" for room in rooms} <= inside
    page = email.message_from_bytes(metadata)
    assert page["Description-Content-Type"] == "text/markdown"
    assert "Typing :: Typed" in page.get_all("Classifier", [])
    assert "langgraph" in page["Keywords"]
    assert str(page.get_payload()).lstrip().startswith("# selfwire")


def test_the_citation_is_of_this_version_and_names_the_papers_of_the_readme() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    text = " ".join((ROOT / "README.md").read_text().split())
    found = set(re.findall(r"\*([^*]+)\*, \[arXiv [\d.]+\]\((https://arxiv.org/abs/[\d.]+)\)", text))
    assert len(found) == 5
    assert {(paper["title"], paper["url"]) for paper in citation["references"]} == found


@pytest.mark.parametrize("linked", [False, True])
def test_folders_of_a_project_take_the_place_of_no_room_of_a_copy_inside_it(linked: bool, tmp_path: Path) -> None:
    """`pip install --target deps selfwire` in a project that LangGraph serves puts the package two folders below it."""
    source, copy = ROOT / "src" / "selfwire", tmp_path / "deps" / "selfwire"
    if linked:
        copy.parent.mkdir()
        copy.symlink_to(source)
    else:
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.pyc"))
    (tmp_path / "langgraph.json").write_text("{}")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("raise ImportError('of the project')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'deps')!r}); import selfwire.tools as t; print(t.__path__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert str(ROOT / "tools" if linked else copy / "tools") in done.stdout, done.stderr


@pytest.fixture
def make_long_description(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("setuptools.setup", lambda **options: None)
    made: Callable[[str, str], str] = runpy.run_path("setup.py")["make_long_description"]
    return made


def test_links_of_the_page_are_absolute(make_long_description: Callable[[str, str], str]) -> None:
    text = "[![picture](docs/a.png)](docs/a.md#b) [up](#top) [paper](https://arxiv.org/abs/1)"
    at = "https://example.org/selfwire"
    picture, page, top = f"{at}/raw/main/docs/a.png", f"{at}/blob/main/docs/a.md#b", f"{at}/blob/main/README.md#top"
    paper = "[paper](https://arxiv.org/abs/1)"
    assert make_long_description(text, at) == f"[![picture]({picture})]({page}) [up]({top}) {paper}"


def test_without_a_repository_no_link_of_the_page_leads_nowhere(
    make_long_description: Callable[[str, str], str],
) -> None:
    assert (
        make_long_description("[![picture](a.png)](a.md) [page](b.md#c) [url](https://d)", "")
        == " page [url](https://d)"
    )
    text = make_long_description((ROOT / "README.md").read_text(), "")
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []
    assert "docs/models.md" in text


def test_the_light_requirements_are_all_but_the_large_ones() -> None:
    assert PAGE.read_text() == make_light_requirements(), "run `python -m tests.light_requirements`"
    given: list[Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert len(given) - len(PAGE.read_text().splitlines()) + 2 == len(LARGE)


def read_stages() -> dict[str, list[str]]:
    """The instructions of every stage of the Dockerfile, by its name."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    stages = re.split(r"^FROM (?=.* AS )", text, flags=re.MULTILINE)[1:]
    return {one.splitlines()[0].rpartition(" AS ")[2]: one.splitlines() for one in stages}


def test_images_are_of_the_python_that_is_tried_and_run_without_rights() -> None:
    stages = read_stages()
    bases = {lines[0].partition(" ")[0] for lines in stages.values()} - stages.keys()
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    assert bases == {f"python:{oldest}-slim-bookworm"}
    for name in ("selfwire", "studio"):
        assert "USER 1000" in stages[name]
    assert any("2024/ok" in line for line in stages["studio"] if line.startswith("HEALTHCHECK"))
    assert "HF_HUB_OFFLINE=1" in next(line for line in stages["base"] if line.startswith("ENV "))


def test_images_have_what_the_extra_for_postgres_brings() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["postgres"]
    [install] = [line for line in read_stages()["build"] if line.startswith("RUN pip install -r")]
    names = {one.strip("'") for one in install.split()[5:] if not one.startswith("$")}
    assert names == {re.split(r"[<>=]", one)[0] for one in extra}


def test_everything_that_is_installed_gets_into_the_images() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    needed = [*TOP, "src", "setup.py", "pyproject.toml", "README.md", "LICENSE", "langgraph.json", PAGE.name]
    assert not [name for name in needed if any(fnmatch(name, pattern) for pattern in ignored)]
    assert {"tests", ".*"} <= set(ignored)  # .venv and .selfwire among them


def test_compose_keeps_teams_in_its_postgres_and_is_open_to_this_machine_alone() -> None:
    given = yaml.safe_load((ROOT / "compose.yaml").read_text())
    services = given["services"]
    assert {services[name]["build"]["target"] for name in ("studio", "selfwire")} <= read_stages().keys()
    for name in ("studio", "selfwire"):
        address = urlsplit(services[name]["environment"]["SELFWIRE_LIBRARY"].replace(":-selfwire}", "}"))
        assert address.hostname in services[name]["depends_on"]
        assert address.path == "/" + services["postgres"]["environment"]["POSTGRES_DB"]
    assert "healthcheck" in services["postgres"]
    ports = [port for one in services.values() for port in one.get("ports", [])]
    assert ports == ["127.0.0.1:2024:2024"]
