"""Stages: tasks of three matters, each of which one clerk of three settles and any other one spoils.

The matters are the situations of `errands`, worded as there. A clerk settles whatever it is handed and stamps the file
by a rule of its own; which clerk is right follows from the situation and is written nowhere. The score is the share of
right stamps, and it does not say which are right. One clerk for all stages is right in one of three, in whatever order
clerks work: of several stamps on a file the first counts.
"""

import random
from collections.abc import Mapping
from functools import lru_cache

from selfwire.core.agent import Agent
from selfwire.core.chat import load_prompts
from selfwire.core.task import Feedback, Task
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.evals.benchmarks.benchmark import (
    RIGHT,
    Benchmark,
    RuleEnvironment,
    TrivialRule,
    make_answer_rule,
    make_disjoint_loader,
    refuse_size,
    reject,
)
from selfwire.evals.benchmarks.errands import HELPERS, generate_errands, load_wordings
from selfwire.evals.benchmarks.shelfmarks import MarkRule, draw_item
from selfwire.evolvers.evomas.pool import EARLY_EXIT, KINDS, METHOD, ROLES

STAGES, SITUATIONS, MOST = 3, 6, 20_000
"""Matters of a task, situations of `errands` that occur, and most tasks."""
STAMPS: Mapping[str, MarkRule] = {
    "librarian": MarkRule("the number of the file mirrored", lambda item: str(item.year)[::-1]),
    "courier": MarkRule("the digit sum of the number of the file", lambda item: str(sum(map(int, str(item.year))))),
    "negotiator": MarkRule(
        "the initials of the person whose file it is", lambda item: "".join(word[0] for word in item.maker.split())
    ),
}
"""The rule of each clerk."""
FORM = (
    "End with a line that starts with 'Answer:' and gives the stamps in the order of the matters, separated by commas, "
    "with a dash for a file without a stamp."
)


@lru_cache(maxsize=8)
def generate_tasks(size: int, seed: int) -> tuple[Task, ...]:
    """Generate tasks; ConfigError if the size is not 1 to `MOST`. The kind of a task names its clerks in order."""
    refuse_size(size, MOST, "tasks of stages")
    rng, tasks = random.Random(f"stages {seed}"), list[Task]()
    for number, errand in enumerate(generate_errands(size, length=STAGES, seed=seed, kinds=SITUATIONS)):
        files = [draw_item(rng) for _ in range(STAGES)]
        clerks = [load_wordings().situations[situation].helper for situation in errand.situations]
        matters = "\n".join(
            f"Matter {at}, file {file.year} of {file.maker}: {text}"
            for at, (file, text) in enumerate(zip(files, errand.texts, strict=True), 1)
        )
        tasks.append(
            Task(
                id=f"stages-{seed}-{number}",
                input=f"Three matters have come to {errand.name}'s office.\n{matters}\nEach matter is handed to a "
                "clerk, who settles it and stamps its file by a rule of his own. One clerk is the right one for a "
                "matter, and the stamp of another is void; nobody has written down who is right for what. Of "
                f"several stamps on a file the first one counts. Which stamps do the three files bear?\n{FORM}",
                kind=" ".join(clerks),
                reference=", ".join(STAMPS[clerk].part(file) for clerk, file in zip(clerks, files, strict=True)),
            )
        )
    return tuple(tasks)


def compare(task: Task, right: str, given: str) -> Feedback:
    """The share of right stamps; never which they are."""
    stamps, wanted = [part.strip().upper() for part in given.split(",")], right.split(", ")
    good = sum(first == second for first, second in zip(stamps, wanted, strict=False)) if len(stamps) == STAGES else 0
    if good == STAGES:
        return RIGHT
    return reject(f"{good} of {STAGES} files bear the right stamp.").replace(score=good / STAGES)


grade = make_answer_rule("stages", compare)


def make_stages_team(*, early_exit: bool = True) -> Team:
    """EvoMAS's pool of clerks; without Early-exit it can be drawn nowhere."""
    prompts = load_prompts("evals", "stages")
    clerks = tuple(
        Agent(id=name, role=HELPERS[name], prompt=prompts.text("clerk", name=name, job=HELPERS[name], rule=rule.text))
        for name, rule in STAMPS.items()
    )
    prompt = load_prompts("evolvers", METHOD).text(EARLY_EXIT).strip()
    leave = Agent(id=EARLY_EXIT, role=ROLES[EARLY_EXIT], prompt=prompt, kind=KINDS[EARLY_EXIT])
    agents = (*clerks, leave) if early_exit else clerks
    return Team(method=METHOD, agents=agents, topology=make_chain(*STAMPS))


def stages(size: int = 600, seed: int = 0) -> Benchmark:
    """The benchmark of a seed; agents hold no tools."""
    return Benchmark(
        name="stages",
        description="Three matters, each for one of three clerks, which only the score tells.",
        load=make_disjoint_loader(lambda: generate_tasks(size, seed)),
        environment=RuleEnvironment("stages", grade, "the share of files with the right stamp"),
        initial_teams={METHOD: make_stages_team()},
        baseline=TrivialRule("no stamp", lambda question: "Answer: -, -, -"),
    )
