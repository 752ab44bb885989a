import json
import os
from pathlib import Path

import pytest

from tests.processes import start, wait_for


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{}, {"LANGSMITH_TRACING": "true"}, {"LANGCHAIN_TRACING_V2": "true"}])
def test_without_a_key_nothing_is_asked_of_the_network_outside_this_machine(
    tmp_path: Path, asked: dict[str, str]
) -> None:
    prefixes = ("LANGSMITH_", "LANGCHAIN_", "SELFWIRE_HOME")
    bare = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    environment = {**bare, **asked, "HOME": str(tmp_path)}
    out, errors = wait_for(start("tests.evals.langsmith.audited:main", str(tmp_path), env=environment))
    found = json.loads(out.splitlines()[-1])
    assert found.pop("outside") == ["socket.connect 192.0.2.1"]  # the audit sees what there is to see
    assert found == {"run": [], "evolve": [], "eval": [], "compare": []}
    assert ("nothing is traced" in errors) == bool(asked)
    assert "refused by the audit" not in out + errors
