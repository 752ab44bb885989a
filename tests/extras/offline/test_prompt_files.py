"""What the project's own prompts switch on: agents' prompts are written for a real model, not for the stand-in."""

from pathlib import Path

import pytest

from selfwire.extras.offline.vocabulary import find_skills

ROOT = Path(__file__).parents[3]
AGENTS = ("source", "aggregator", "single", "direct", "reasoned", "summary")


FILES = sorted(path for room in ("evolvers", "nodes", "evals") for path in (ROOT / room).glob("prompts/**/*.md"))


@pytest.mark.parametrize("path", [path for path in FILES if path.stem in AGENTS], ids=lambda path: path.stem)
def test_the_seed_team_and_single_agents_start_without_instructed_skills(path: Path) -> None:
    assert find_skills(path.read_text(encoding="utf-8")) == ()
