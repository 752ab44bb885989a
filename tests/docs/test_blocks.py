"""Blocks and commands are found as a reader sees them, and what a page shows is compared with what is printed."""

import pytest

from tests.docs.blocks import Command, find_blocks
from tests.docs.world import check_shown, cut_options

PAGE = """Install it:

```sh
selfwire run hiva "a # b" \\
    --show   # a comment
# nothing

selfwire runs
```

`team.json`:

```json
{}
```

```console
$ selfwire version
selfwire 0.1
$ selfwire runs
```
"""


def test_commands_are_found_with_what_the_page_shows() -> None:
    shell, file, console = find_blocks(PAGE, "page.md")
    assert [one.words for one in shell.commands] == [
        ["selfwire", "run", "hiva", "a # b", "--show"],
        ["selfwire", "runs"],
    ]
    assert (str(shell), shell.file, file.file, file.text) == ("page.md:3", "", "team.json", "{}\n")
    assert list(console.commands) == [Command("selfwire version", "selfwire 0.1\n"), Command("selfwire runs")]


def test_what_is_printed_must_hold_what_the_page_shows() -> None:
    shown = Command("selfwire eval", "hiva  0.5 ... calls\n")
    check_shown(shown, "one line before\nhiva 0.5 in 12 calls\nand one after\n")
    with pytest.raises(AssertionError, match=r"\$ selfwire eval"):
        check_shown(shown, "hiva 0.6 in 12 calls\n")


def test_sizes_are_cut_but_nothing_is_added_that_a_command_refuses() -> None:
    long = ["selfwire", "evolve", "hera", "--gate", "off", "--train", "60"]
    assert cut_options(long)[6] == "2"
    assert "--gate-tasks" not in cut_options(long)
    assert cut_options([*long, "--dry-run"]) == [*long, "--dry-run"]
