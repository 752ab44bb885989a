"""Content of a page, as frozen values."""

from typing import Literal

from pydantic import Field

from selfwire.core.values import FrozenModel
from selfwire.evals.statistics import IntervalEstimate
from selfwire.evals.table import SystemInfo, SystemSummary, TaskRow
from selfwire.evolvers.pictures import Panel
from selfwire.extras.pages.stored import StoredTrajectory
from selfwire.runs.front import FrontLine


class Place(FrozenModel):
    """A phase of a run in which a team ran on tasks.

    Args:
        key: as in the journal, such as `2/gate/candidate`.
        title: for people, such as `iteration 3, gate: candidate`.
        row: shorter, where the split is known.
        split: train, gate, test or baseline.
        version: number of the version that ran; None for a candidate that was rejected, and for baselines.
        outcomes: how the team did on each task.
        trails: the trajectories, in the order of the outcomes.
        method: that reads the trajectories' notes; "" for teams without a method.
    """

    key: str
    title: str
    row: str
    split: str
    iteration: int
    side: str = ""
    version: int | None = None
    outcomes: tuple[TaskRow, ...]
    trails: tuple[StoredTrajectory, ...] = Field(repr=False)
    method: str = ""

    def summarise(self, name: str = "") -> SystemSummary:
        """Sum up the outcomes as those of a system."""
        summary = SystemSummary(SystemInfo(name=name, target="", method="", workflow=""))
        for outcome in self.outcomes:
            summary.add(outcome)
        return summary


class AgentCard(FrozenModel):
    """An agent of a version.

    Args:
        learned: what the method has learned about it, as short text by name.
        runs: tasks that its version ran on; calls and tokens are means over them.
    """

    id: str
    role: str
    kind: str
    prompt: str
    tools: tuple[str, ...]
    memory: tuple[str, ...] = ()
    learned: dict[str, str] = Field(default_factory=dict)
    runs: int = 0
    calls: float = 0.0
    tokens: float = 0.0


class Link(FrozenModel):
    """An edge of a version, with the messages that it carried per task."""

    source: str
    target: str
    traffic: float = 0.0


class EditLine(FrozenModel):
    """A line of an edit: an edit in words (" "), or a line that a prompt lost (-), gained (+) or kept (=)."""

    sign: Literal[" ", "-", "+", "="]
    text: str


class EditGroup(FrozenModel):
    """Edits that were proposed together.

    Args:
        refused: why they could not be applied; "" if they could.
    """

    operation: str
    by: str
    why: str
    lines: tuple[EditLine, ...]
    refused: str = ""


class TeamVersion(FrozenModel):
    """The team after an iteration, or in a round of one question.

    Args:
        label: its heading.
        number: 0 for the initial team.
        accepted: whether the iteration's candidate became the team; None for the initial team.
        outcome: accepted, rejected, no change or unusable reply; "" for the initial team.
        why: the gate's reason.
        tag: what came of it, in a word or a number.
        difference: candidate - incumbent on the gate's tasks; None where nothing was compared.
        nodes: agent by node; `entry` and `sink` are among them, or "".
        names: what stands in a node, where that is not its id.
        captions: a few words by node, to stand below its name.
        panels: what its method shows of it.
    """

    number: int
    label: str
    ref: str
    accepted: bool | None
    outcome: str = ""
    why: str
    tag: str = ""
    difference: IntervalEstimate | None = None
    score: float | None = None
    nodes: dict[str, str]
    names: dict[str, str] = Field(default_factory=dict)
    captions: dict[str, str] = Field(default_factory=dict)
    links: tuple[Link, ...]
    entry: str
    sink: str
    agents: tuple[AgentCard, ...]
    edits: tuple[EditGroup, ...] = ()
    panels: tuple[Panel, ...] = ()


class SystemLine(FrozenModel):
    """A system on the test tasks, or a variant of a method over seeds.

    Args:
        calls, tokens, dollars: per task; None where they are not known.
        tasks: how many tasks, or seeds.
        cut: tasks that the cap of calls stopped before the system was done.
        gain: its difference from the one that all are compared with.
        note: stands beside the difference, or for it.
        main: whether the page is about it.
        samples: the score of each seed.
        details: further figures by the name of their column.
    """

    name: str
    score: IntervalEstimate | None
    calls: float
    tokens: float | None
    dollars: float | None = None
    tasks: int
    errors: int = 0
    cut: int = 0
    gain: IntervalEstimate | None = None
    note: str = ""
    main: bool = False
    samples: tuple[float, ...] = ()
    details: dict[str, str] = Field(default_factory=dict)


class MechanismLine(FrozenModel):
    """Worth of a mechanism: a system that has it less one that lacks only it.

    Args:
        main, control: the systems with it and without it.
        possible: how much more than the control the best possible system scores.
        gain: None for fewer than two seeds.
        samples: the gain of each seed.
        decisions: free decisions among all; "" where none are made.
    """

    name: str
    main: str
    control: str
    possible: float
    gain: IntervalEstimate | None
    samples: tuple[float, ...]
    decisions: str = ""


class LearnedInsight(FrozenModel):
    """An insight that a team has learned, and the runs that it came from."""

    kind: str
    text: str
    utility: float
    uses: int
    sources: str


class SpendLine(FrozenModel):
    """Cost of a role in a run."""

    role: str
    what: str
    calls: int
    tokens: int
    dollars: float | None


class UpdateLine(FrozenModel):
    """An update of a router.

    Args:
        score: of the runs that it learned from; None if none was graded.
        entropy: of the router's probabilities, in nats.
        shares: mean probability by agent, over the choices in which it could be chosen.
        skipped: whether the weights stayed as they were.
    """

    number: int
    score: IntervalEstimate | None
    entropy: float
    episodes: int
    errors: int
    skipped: bool
    shares: dict[str, float]


class AgentShare(FrozenModel):
    """How often a router means to choose an agent; None where the agent could not be chosen.

    Args:
        first, last: mean probability in the first and the last updates.
        untrained, trained: the same on held-out tasks, before and after training.
        with_it, without_it: mean scores of the runs of training in which it was chosen, and of the others.
    """

    name: str
    first: float | None
    last: float | None
    untrained: float | None = None
    trained: float | None = None
    with_it: IntervalEstimate | None = None
    without_it: IntervalEstimate | None = None


class RouterLearning(FrozenModel):
    """The training of a router.

    Args:
        span: how many updates `first` and `last` of the shares are means over.
        chance: entropy of a choice by chance among all agents, in nats.
    """

    updates: tuple[UpdateLine, ...]
    shares: tuple[AgentShare, ...]
    span: int
    chance: float


class RunReport(FrozenModel):
    """Everything that the page of a run shows.

    Args:
        verdict: the result in a sentence.
        standfirst: what else to know first.
        facts: name and value of what describes the run.
        warning: printed wherever figures need it; "" if none do.
        panels: what the method shows of all versions together.
        systems_title: heading of the systems.
        front: versions and baselines by score and calls, the cheapest first.
        counted: what a system's score is a mean over.
    """

    run: str
    title: str
    verdict: str
    standfirst: str
    facts: tuple[tuple[str, str], ...]
    warning: str = ""
    versions: tuple[TeamVersion, ...] = ()
    mechanisms: tuple[MechanismLine, ...] = ()
    systems: tuple[SystemLine, ...] = ()
    systems_title: str = "On held-out tasks"
    front: tuple[FrontLine, ...] = ()
    counted: str = "tasks"
    learning: RouterLearning | None = None
    places: tuple[Place, ...] = ()
    spend: tuple[SpendLine, ...] = ()
    insights: tuple[LearnedInsight, ...] = ()
    panels: tuple[Panel, ...] = ()

    @property
    def details(self) -> tuple[str, ...]:
        """Names of the systems' further figures."""
        return tuple(dict.fromkeys(name for line in self.systems for name in line.details))

    @property
    def largest_gain(self) -> TeamVersion | None:
        """The accepted version with the largest gain at the gate; None if none gained."""
        gains = [(version.difference.value, version) for version in self.versions if version.difference]
        gained = [(gain, version) for gain, version in gains if version.accepted and gain > 0]
        return max(gained, key=lambda entry: entry[0])[1] if gained else None
