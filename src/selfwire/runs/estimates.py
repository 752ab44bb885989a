"""Estimates of costs before a run: calls by sizes, config fields and rates that were measured offline."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import TypeVar

from selfwire.core.errors import ConfigError
from selfwire.core.plugins import is_graph, method_names
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.core.usage import ZERO_USAGE, Usage, sum_usages
from selfwire.core.values import format_count
from selfwire.evals.baselines import SingleAgent, make_baseline
from selfwire.evals.benchmarks.benchmark import NeedsModel
from selfwire.evals.table import read_results
from selfwire.evolvers.router.config import TrainConfig
from selfwire.extras.lab.ablation.plan import Study
from selfwire.graphs.evolve import deal_questions
from selfwire.graphs.method import LOOP, Calls, estimate_calls, find_method, scale_calls, sum_calls
from selfwire.graphs.own_graph import read_texts
from selfwire.graphs.pruning import list_parts
from selfwire.models.providers import refuse_unknown_model
from selfwire.runs.evaluation import RESULTS
from selfwire.runs.evaluation import validate_request as validate_evaluation
from selfwire.runs.evolution import EvolutionPlan, refuse_unpriced_objective
from selfwire.runs.evolution import validate_request as validate_evolution
from selfwire.runs.inputs import explain_model_of_team, find_teams_of, load_prices, refuse_useless_address
from selfwire.runs.pre_evolution import make_evolutions
from selfwire.runs.proof import ALWAYS
from selfwire.runs.record import get_runs_folder, list_run_names
from selfwire.runs.spec import EvaluateSpec, EvolveSpec, Models, SystemSpec
from selfwire.runs.training import describe_router
from selfwire.runs.votes import ONE, list_lone

AnyRequest = TypeVar("AnyRequest", EvolveSpec, EvaluateSpec)

FACTOR = 2.5
"""The calls of a method lie between the estimate divided by this and the estimate times this."""
TOKEN_FACTOR = 3
"""The factor for tokens, which also depend on the wording of prompts and replies."""
BASELINE_TOKENS = 300
"""Tokens of a call of a baseline, beside the text of the question."""
JUDGE_TOKENS = 600
"""Tokens of a call that grades an answer, beside the text of the question."""
WAYS = 3
"""Number of runs of the test tasks after a training: trained, untrained, by chance."""
LEFT_OUT = 1 / 3
"""Share of a team's calls that is asked anew where a part of it is left out; the others are replayed."""
LETTERS = 4
"""Letters of a question per token."""
RECEIVED = 0.15
"""Share of the tokens that are received."""
WITHIN = f"calls within a factor of {FACTOR:g} either way and tokens within {TOKEN_FACTOR}"
BINDING = "--budget-calls, --budget-tokens or --budget-usd to bind it"


@dataclass(frozen=True)
class CostEstimate:
    """A range of costs.

    Attributes:
        low, likely, high: usages with few calls and short prompts, as offline, and with many calls and long prompts.
        assumes: what the estimate assumes, and how to lower the cost.
        notices: what the run itself would say before it starts, such as guessed fields of tasks.
        unpriced: graphs of the user's own that no evaluation here has priced; the dollars are without them.
        measured: evaluations by which graphs of the user's own are priced.
    """

    low: Usage = ZERO_USAGE
    likely: Usage = ZERO_USAGE
    high: Usage = ZERO_USAGE
    title: str = ""
    assumes: str = ""
    notices: tuple[str, ...] = ()
    unpriced: frozenset[str] = frozenset()
    measured: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The estimate as a text."""
        low, likely, high = self.low, self.likely, self.high
        dollars = "unknown (no list price)"
        if high.dollars is not None:
            dollars = f"about ${likely.dollars or 0:,.2f} (${low.dollars or 0:,.2f} to ${high.dollars:,.2f})"
        if self.unpriced:
            left = f"{' and '.join(sorted(self.unpriced))}: what its models cost is known after `selfwire eval`"
            dollars = f"unknown for {left}" if high.dollars == 0 else f"{dollars}, without {left}"
        if self.measured:
            dollars = f"{dollars}, with {' and '.join(sorted(self.measured))}"
        return (
            f"{self.title}: nothing was sent\n"
            f"calls:   about {likely.calls:,} ({low.calls:,} to {high.calls:,})\n"
            f"tokens:  about {likely.tokens:,} ({low.tokens:,} to {high.tokens:,})\n"
            f"dollars: {dollars}\n"
            f"the estimate assumes {self.assumes}"
        )

    def __add__(self, other: "CostEstimate") -> "CostEstimate":
        """Add two estimates, without their titles."""
        low, likely, high = self.low + other.low, self.likely + other.likely, self.high + other.high
        return CostEstimate(
            low, likely, high, unpriced=self.unpriced | other.unpriced, measured=self.measured | other.measured
        )

    def explain(self, title: str, assumes: str, notices: tuple[str, ...] = ()) -> "CostEstimate":
        """Add the title, the assumptions and the notices of the run."""
        return replace(self, title=title, assumes=assumes, notices=notices)


def estimate_evolution(request: EvolveSpec, home: Path | None) -> CostEstimate:
    """Estimate calls, tokens and dollars; nothing is sent or written, and no key is needed.

    Raises:
        ConfigError, LibraryError: the request cannot be used.
    """
    plan = validate_evolution(_without_key(request, home), home)
    found = _estimate_evolution(request, home, plan)
    title = f"dry run of {request.method} on {request.benchmark}"
    return found.explain(title, f"what it takes offline, {WITHIN}; set {BINDING}", plan.notices)


def estimate_training(request: EvolveSpec, train: TrainConfig, home: Path | None) -> CostEstimate:
    """Estimate the training of a router, as `estimate_evolution`.

    Args:
        train: how it is trained.

    Raises:
        ConfigError, LibraryError: the request cannot be used, or the router of the team would have nothing to choose.
    """
    plan = validate_evolution(_without_key(request, home), home, check=describe_router(request.method).plan)
    found = estimate_calls(request.method, request.config, plan.seed)
    runs = train.updates * train.batch + WAYS * request.sizes.test
    cost = _price_range(scale_calls(found.question, runs), found.tokens + _count_tokens(plan), request.models, home)
    title = f"dry run of training {request.method} on {request.benchmark}"
    return cost.explain(title, f"what it takes offline, {WITHIN}; set {BINDING}", plan.notices)


def estimate_evaluation(
    request: EvaluateSpec, home: Path | None, seeds: int = 1, *, votes: bool = False
) -> CostEstimate:
    """Estimate the systems, the judge of their answers, and evolutions before, as `estimate_evolution`.

    Args:
        seeds: runs of the same sizes.
        votes: whether votes that cost as much as the answers of the systems are asked for.

    Raises:
        ConfigError, LibraryError: the request cannot be used.
    """
    keyless, models = _without_key(request, home), request.models
    plan, found = validate_evaluation(keyless, home), CostEstimate()
    asked = sum(len(task.input) for task in plan.tasks) / len(plan.tasks) / LETTERS
    for entry in request.entries:
        team = plan.workflows[entry.name].workflow
        low, high, tokens = _estimate_system(entry, team, request.calls_per_task, home)
        few, many = scale_calls(low, len(plan.tasks)), scale_calls(high, len(plan.tasks))
        found += _price(few, many, tokens + asked, models, home, team.method)
    if isinstance(plan.benchmark.environment, NeedsModel):  # the trivial baseline's answers too, unless blank
        trivial = sum(bool(plan.benchmark.baseline.answer(task.input).strip()) for task in plan.tasks)
        judged = {"judge": len(plan.tasks) * len(request.entries) + trivial}
        found += _price(judged, judged, JUDGE_TOKENS + asked, models, home)
    for evolution in make_evolutions(keyless, get_runs_folder(home) / "none", home):
        asked_for = evolution.evolve_request.replace(models=models)
        found += _estimate_evolution(asked_for, home, validate_evolution(evolution.evolve_request, home))
    if votes:
        found += _estimate_votes(request, home, list_lone(request.entries))
    names = [*(entry.target for entry in request.entries if entry.name != ONE), *["votes at their price"] * votes]
    title = f"dry run of {', '.join(names)} on {request.benchmark}{f', {seeds} seeds' if seeds > 1 else ''}"
    assumes = (
        f"{format_count(len(plan.tasks), 'task')}, of methods what they take offline, {WITHIN}, or all their rounds, "
        f"of baselines 1 to {2 * LOOP:g} calls per agent with tools, of a graph of your own up to {2 * LOOP:g} per "
        f"prompt; set --calls-per-task, {BINDING}"
    )
    return sum([found] * seeds, CostEstimate()).explain(title, assumes, plan.notices)


def _estimate_votes(request: EvaluateSpec, home: Path | None, singles: Sequence[str]) -> CostEstimate:
    """Estimate votes that cost as much as the answers of the systems but `singles`; an answer may cost more or less."""
    priced = tuple(entry for entry in request.entries if entry.name not in singles)
    if not priced:
        return CostEstimate()
    found = estimate_evaluation(request.replace(evolving=None, entries=priced, against=""), home)
    low, high = int(found.low.calls / FACTOR), int(found.high.calls * FACTOR)
    votes = frozenset(f"votes at the price of {name}" for name in found.unpriced)
    return replace(found, low=found.low.replace(calls=low), high=found.high.replace(calls=high), unpriced=votes)


def estimate_proof(requests: Sequence[EvaluateSpec], home: Path | None, seeds: int) -> CostEstimate:
    """Estimate a proof, as `estimate_evaluation`: each comparison, and votes that cost as much as its systems' answers.

    Args:
        seeds: of each comparison.
    """
    found, title = CostEstimate(), f"{len(requests[0].entries)} systems and votes at their price"
    for request in requests:
        priced = estimate_evaluation(request, home) + _estimate_votes(request, home, ALWAYS)
        found += sum([priced] * seeds, CostEstimate())
    names = ", ".join(request.benchmark for request in requests)
    assumes = f"what methods take offline, {WITHIN}; fewer --systems, --tasks or --seeds cost less; set {BINDING}"
    return found.explain(f"{title} on {names}, {format_count(seeds, 'seed')}", assumes)


def estimate_ablation(study: Study) -> CostEstimate:
    """Estimate all runs of a study together, as `estimate_evolution`.

    Raises:
        ConfigError: the study cannot be used.
    """
    runs = [
        estimate_evolution(study.request(name, 0).replace(baselines=False), None)
        if study.evolves
        else estimate_evaluation(study.evaluation(name, 0), None)
        for name in study.chosen
    ]
    title = f"dry run of {len(runs)} variants of {study.method} on {study.benchmark}, {study.seeds} seeds each"
    assumes = f"what they take offline, {WITHIN}; fewer --variants or --seeds, or smaller sizes, cost less"
    return sum(runs * study.seeds, CostEstimate()).explain(title, assumes)


def estimate_evolution_calls(request: EvolveSpec, team: Team, gate: Sequence[Task] = ()) -> Calls:
    """Estimate the calls of an evolution: its runs on train and gate tasks, its learning, and its tests.

    Args:
        gate: its gate tasks; () where they are not loaded, which takes all questions for different ones.
    """
    settings, sizes = request.evolution, request.sizes
    batch, iterations = min(settings.batch, sizes.train), settings.iterations
    begins, during, after = (
        estimate_calls(request.method, request.config, team, batch, added_agents)
        for added_agents in (0.0, iterations / 2, float(iterations))  # about an agent per iteration, where teams grow
    )
    gate = gate or [Task(id=f"{number}", input=f"{number}") for number in range(sizes.gate)]
    gate_tasks, pruning_tasks = (sum(map(len, groups)) for groups in deal_questions(settings, gate))
    if settings.rule is None:  # a proof may take all
        gate_tasks = min(settings.gate_tasks, len(settings.deal_gate_tasks(gate)[0]))
    asked = 2.0 * gate_tasks if settings.gate != "off" else 0.0
    if settings.screens:  # of three teams on train tasks, and then half of the candidates are worth a proof
        asked = 3 * batch + asked / 2
    runs, pruned = iterations * (batch * during.samples + during.gate_share * asked), 0.0
    if settings.pruning:  # half of its times, with proofs of half of the tasks
        models = 0 if "models" in settings.freeze else len(team.agents) * len(request.models.named)
        there = [part.kind for part in list_parts(team, settings.freeze).values()]
        times = settings.pruning.iterations / 2
        sentences = there.count("sentence")
        parts = len(there) - sentences + models + iterations + min(sentences, settings.pruning.sentences)
        tasks = min(settings.pruning.batch, sizes.train)
        checks = min(settings.pruning.checks, sizes.train - tasks)
        # a group each time, and each agent that is not seen to be needed once by itself
        checked = times + (there.count("agent") + iterations) * (checks >= settings.pruning.batch)
        pruned = times * (tasks + checks + pruning_tasks) + (parts * tasks + checked * checks) * LEFT_OUT
    tests = sizes.test if request.tested else 0
    return sum_calls(
        scale_calls(during.question, runs),
        scale_calls(after.question, pruned),
        scale_calls(during.learning, iterations),
        scale_calls(begins.question, tests),
        scale_calls(after.question, tests * find_method(request.method).evolves),  # an unchanged team is tested once
        # the single agent and the seed with votes spend as much as the evolved team each
        {"agent": 2 * sum(after.question.values()) * tests * request.baselines},
    )


def _estimate_evolution(request: EvolveSpec, home: Path | None, plan: EvolutionPlan) -> CostEstimate:
    calls = estimate_evolution_calls(request, plan.seed, plan.tasks.gate)
    tokens = estimate_calls(request.method, request.config, plan.seed).tokens + _count_tokens(plan)
    return _price_range(calls, tokens, request.models, home, request.method)


def _without_key(request: AnyRequest, home: Path | None) -> AnyRequest:
    """Replace the models of a request by the offline model, so that it can be validated without a key.

    Raises:
        ConfigError: a model's name or address cannot be used, or a dollar budget meets a model without a price.
    """
    for name in sorted(request.models.asked):
        with explain_model_of_team(name, request.models, find_teams_of(request, home)):
            refuse_unknown_model(name)
        if request.budget.dollars is not None:
            load_prices(request.models, home).require(name)
    if isinstance(request, EvolveSpec):
        refuse_unpriced_objective(request, request.models.asked, load_prices(request.models, home))
    refuse_useless_address(request.models)
    named = dict.fromkeys(request.models.named, "offline")  # which agents may ask for
    return request.replace(models=Models(named=named), budget=request.budget.replace(dollars=None))


def _count_tokens(plan: EvolutionPlan) -> float:
    """Count the tokens of a train question."""
    tasks = plan.tasks.train
    return sum(len(task.input) for task in tasks) / len(tasks) / LETTERS


def read_graph_usage(graph: str, home: Path | None) -> tuple[str, Usage, int] | None:
    """Read what the newest evaluation of a graph of the user's own took: its name, usage and number of answers."""
    for run in reversed(list_run_names(home)):
        with suppress(ConfigError):  # no evaluation, or none with results
            header, rows = read_results(get_runs_folder(home) / run / RESULTS)
            names = [system.name for system in header.systems if system.method == graph]
            used = [row.usage for row in rows if row.target in names and row.error is None]
            if sum(usage.calls for usage in used):
                return run, sum_usages(used), len(used)
    return None


def _estimate_system(entry: SystemSpec, team: Team, cap: int | None, home: Path | None) -> tuple[Calls, Calls, float]:
    """The fewest and the most calls for a question, and the tokens of a call."""
    if team.method in method_names():
        found = estimate_calls(team.method, entry.config, team)
        usual, most = (sum(calls.values()) for calls in (found.question, found.most))
        low = scale_calls(found.question, 1 / FACTOR)
        high, tokens = scale_calls(found.question, max(FACTOR, most / usual) if usual else FACTOR), found.tokens
    elif is_graph(team.method) and (known := read_graph_usage(team.method, home)):
        usual, tokens = known[1].calls / known[2], BASELINE_TOKENS
        low, high = {"agent": usual / FACTOR}, {"agent": usual * FACTOR}
    else:
        low, high = ({"agent": end} for end in _estimate_baseline(entry, team, cap))
        tokens = BASELINE_TOKENS
    return _cap(low, cap), _cap(high, cap), tokens


def _cap(calls: Calls, cap: int | None) -> Calls:
    whole = sum(calls.values())
    return scale_calls(calls, cap / whole) if cap and whole > cap else calls


def _estimate_baseline(entry: SystemSpec, team: Team, cap: int | None) -> tuple[float, float]:
    """Estimate the fewest and most calls: every node once, or with a tool loop; a vote spends its whole cap."""
    most = sum(2 * LOOP if team.agents_by_id[agent].tools else 1 for agent in team.topology.agents.values())
    if is_graph(team.method):
        prompts = sum(text.is_prompt for text in read_texts(team.method)[0].values())
        return 1, 2 * LOOP * prompts or cap or 2 * LOOP
    baseline = make_baseline(team.method, entry.config)
    if not isinstance(baseline, SingleAgent):
        return len(team.topology.nodes), most
    samples = baseline.config.samples
    if cap and not samples:
        return cap, cap
    return samples or 1, (samples or 1) * most


def _price_range(calls: Calls, tokens: float, models: Models, home: Path | None, target: str = "") -> CostEstimate:
    return _price(scale_calls(calls, 1 / FACTOR), scale_calls(calls, FACTOR), tokens, models, home, target)


def _price(low: Calls, high: Calls, tokens: float, models: Models, home: Path | None, target: str = "") -> CostEstimate:
    """Price calls by role; those of a graph of the user's own as an evaluation has measured them, else not at all."""
    prices, roles = load_prices(models, home), models.roles
    unpriced = measured = frozenset[str]()
    known = read_graph_usage(target, home) if is_graph(target) else None
    if is_graph(target):
        roles = {**roles, "agent": "offline"}
        if known and known[1].dollars is not None:
            measured = frozenset({f"{target} as {known[0]} has measured it"})
        else:
            unpriced = frozenset({target})
    likely = {role: sqrt(few * high[role]) for role, few in low.items()}

    def price(calls: Calls, factor: float) -> Usage:
        found = list[Usage]()
        for role, count in calls.items():
            both = likely[role] * tokens * factor
            sent, received = round(both * (1 - RECEIVED)), round(both * RECEIVED)
            dollars = prices.cost(roles[role], sent, received)
            if known and role == "agent":
                share = count / known[1].calls
                sent, received = round(known[1].input_tokens * share), round(known[1].output_tokens * share)
                dollars = (known[1].dollars or 0) * share
            found.append(Usage(calls=round(count), input_tokens=sent, output_tokens=received, dollars=dollars))
        return sum_usages(found)

    ends = price(low, 1 / TOKEN_FACTOR), price(likely, 1), price(high, TOKEN_FACTOR)
    return CostEstimate(*ends, unpriced=unpriced, measured=measured)
