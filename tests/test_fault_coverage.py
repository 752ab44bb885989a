"""The list of branches that handle faults and are never run."""

from pathlib import Path

from tests.fault_coverage import find_faults

SOURCE = """
try:
    act()
except ValueError:
    raise ConfigError("no") from None
except KeyError:
    x = 1
    raise
except OSError:  # pragma: no cover - only on Windows
    pass
except TypeError:  # pragma: no cover
    pass
if x:
    raise ToolError("no")
"""


def test_branches_that_are_never_run_are_listed_once_unless_they_say_why(tmp_path: Path) -> None:
    path = tmp_path / "act.py"
    path.write_text(SOURCE.removeprefix("\n"))
    without_reason = f"{path}:10 gives no reason: except TypeError:  # pragma: no cover"
    handlers = [f"{path}:3 is never run: except ValueError:", f"{path}:5 is never run: except KeyError:"]
    nested, reached = f"{path}:7 is never run: raise", f'{path}:13 is never run: raise ToolError("no")'
    assert list(find_faults(path, set())) == [without_reason]
    assert list(find_faults(path, {4, 6, 7, 13})) == [*handlers, nested, without_reason, reached]
