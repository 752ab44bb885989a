"""Write docs/prompts anew: `python -m tests.render_prompts`, or `… hiva` for one method."""

import asyncio
import sys

from tests.prompts.pages import FOLDER, render_page
from tests.prompts.runs import RUNS, ask_everything


def main() -> None:
    for method in sys.argv[1:] or RUNS:
        (FOLDER / f"{method}.md").write_text(render_page(method, asyncio.run(ask_everything(method))), encoding="utf-8")


if __name__ == "__main__":
    main()
