"""HiVA as a state machine (Tang et al., arXiv 2509.00189, Alg. 1): it answers a question, and rewires its team.

    START -> begin -> characterize -> forward (the team) -> [evolve is off] END
      |        |                       ^  |  ^
      |        +-- [no choice to make]-+  |  +------- [not solved, rounds are left] ------+
      |                                   v                                               |
      |                              environment                                          |
      |                                   v                                               |
      +-- [graded runs] ---------------> loss -> [all solved] -> update_beliefs -> repair +-> END
                                          |                            ^
                                          v [not solved]               |
                                       backward -> evolve_semantics -> evolve_topology

A question enters at `begin`, graded runs of the outer evolution at `loss`. Where a user has the team learn from a
question, both halves run, for as many rounds as are allowed. `characterize` names the task's concepts, once, where the
bandit has a choice to make (D21). The state holds one team and one batch of runs, each overwritten.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from langgraph.config import get_config
from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.chat import Prompts, load_prompts
from selfwire.core.edits import Rewiring
from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import TopologyLimits, make_chain
from selfwire.core.trajectory import DECISIONS, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenMap
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.forward import (
    characterize_task,
    make_instructor,
    match_noted,
    match_task,
    note_concepts,
    to_notes,
)
from selfwire.evolvers.hiva.gradients import (
    Backward,
    Gradient,
    Loss,
    compute_loss,
    count_agreement,
    propagate_gradients,
)
from selfwire.evolvers.hiva.kabb import (
    TaskMatch,
    carry_over_learning,
    count_decisions,
    estimate_turns,
    fit_memory,
    has_learned_router,
    learn_lessons,
    make_lesson,
    make_router,
    make_weight_sample,
    needs_concepts,
    refit_weights,
)
from selfwire.evolvers.hiva.knowledge import TaskConcepts
from selfwire.evolvers.hiva.memory import MEMORY_KEY, HivaMemory
from selfwire.evolvers.hiva.pictures import draw_learning, note_passes
from selfwire.evolvers.hiva.semantics import propose_rewrites
from selfwire.evolvers.hiva.structure import (
    decide_edits,
    list_parallel_tasks,
    propose_least_helpful_removal,
    repair_topology,
)
from selfwire.evolvers.hiva.tools import TRIES as CODE_TRIES
from selfwire.evolvers.hiva.tools import evolve_tools
from selfwire.evolvers.prompted_model import DeclinedProposal, PromptedModel
from selfwire.evolvers.router.config import RouterConfig
from selfwire.evolvers.trajectory_text import gather_all
from selfwire.graphs.build import make_build
from selfwire.graphs.machine import (
    END,
    START,
    Ctx,
    MethodGraph,
    RunContext,
    State,
    Update,
    run_graph,
)
from selfwire.graphs.method import (
    FULL,
    LOOP,
    RANDOM,
    CallEstimate,
    EvolveResult,
    Method,
    RouterPlan,
    RouterTraining,
    Variant,
    count_turn_calls,
)
from selfwire.graphs.serve import make_server
from selfwire.graphs.team import TeamContext, run_team
from selfwire.tools.own import ToolTrial, record_tool_calls

METHOD = "hiva"
SOURCE, AGGREGATOR = "source", "aggregator"
TOOLS = "Use your tools where they help."  # said to a source that holds some


class HivaContext(RunContext):
    """Choices of a user for one run; each field's description says what it does."""

    evolve: bool = Field(default=False, description="Whether the team learns from this question.")
    iterations: int = Field(default=1, ge=1, le=100, description="Most rounds of evolution on this question (T).")


class HivaState(State):
    """State of a question or of a batch of graded runs, beside the channels of every state.

    Attributes:
        workflow: the team as it is rewired; `ran` is the team that made this round's trajectories.
        concepts: of the task; None where it has not been characterised.
        overhead: cost of characterising it, until a trajectory has it.
        oracle: whether labels were used on this very question.
        solved: whether every answer of this round was; None where nothing says.
        losses, passes: per trajectory; a pass is None where nothing is propagated.
        applied, declined: rewirings of this round, and proposals that were not applied.
        reflection: cost of loss to evolve_topology in this round.
        iteration: rounds of evolution done on this question.
        saved: reference of the version that this question's learning saved last, such as `hiva@studio-3f2a9c.1`.
    """

    workflow: Team
    ran: Team
    trajectories: tuple[Trajectory, ...] = ()
    concepts: TaskConcepts | None = None
    overhead: Usage = Usage()
    oracle: bool = False
    solved: bool | None = None
    losses: tuple[Loss, ...] = ()
    passes: tuple[Backward | None, ...] = ()
    applied: tuple[Rewiring, ...] = ()
    declined: tuple[DeclinedProposal, ...] = ()
    reflection: Usage = Usage()
    iteration: int = 0
    saved: str = ""

    @property
    def place(self) -> Scope:
        """Place of this round."""
        return self.scope.at(iteration=self.scope.iteration + self.iteration)

    @property
    def gradients(self) -> tuple[Gradient, ...]:
        """All gradients of this round, in task order."""
        return tuple(gradient for backward in self.passes if backward for gradient in backward.gradients)


# A question (Alg. 2)


async def begin(state: HivaState, ctx: Ctx[HivaConfig]) -> Update:
    """Take a new question."""
    question, team, scope = await ctx.begin(state, state.workflow if "workflow" in state else None)
    ctx.edit(team)  # refused before anything is paid
    if ctx.served:
        scope = scope.at(iteration=HivaMemory.of(team).iteration + 1, phase="forward")
    return state.restart(question, scope, workflow=team)


async def characterize(state: HivaState, ctx: Ctx[HivaConfig]) -> Update:
    """Name the task's concepts, once, where the bandit has a choice to make (D21)."""
    concepts, usage = await name_concepts(state.get_question(), state.workflow, ctx)
    return state.update(concepts=concepts, overhead=usage, usage=state.usage + usage)


async def forward(state: HivaState, ctx: Ctx[HivaConfig]) -> Update:
    """Run the current team once; KABB, or a trained router, chooses the successors that get each answer.

    Raises:
        TaskError: the team has no answer, in a graph that a user runs.
    """
    team, question, match = ctx.edit(state.workflow), state.get_question(), TaskMatch()
    if state.concepts and needs_concepts(team, ctx.options):
        match = await match_task(state.concepts, team, ctx.embed)
    act, router, is_learned = ctx.make_runner(team), make_router(team, match, ctx.options), False
    if has_learned_router(team, ctx.options):
        from selfwire.graphs.router import make_learned_router, to_team_episode  # imports numpy

        routing, is_learned = await make_learned_router(team, question, act, ctx.embed), True
        act, router = routing.act, routing.router
    instruct = make_instructor(team, ctx.critic)  # an instruction may repeat long lines, unlike a critic's question
    run = TeamContext.of(team, question, ctx.scope, act, router=router, instruct=instruct)
    done = await run_team(team.topology, run, config=ctx.team_config)
    ctx.require_answer(done)
    notes = to_notes(state.concepts)
    if decided := count_decisions(done.steps):
        notes[DECISIONS] = decided.model_dump(mode="json")
    if is_learned and (episode := to_team_episode(done, team)):
        notes["episode"] = episode.model_dump(mode="json")
    return state.update(
        trajectories=[done.replace(overhead=state.overhead, notes=notes)],
        answer=done.answer,
        overhead=Usage(),
        usage=state.usage + done.usage,
    )


# Learning from graded runs (Alg. 1): those that the outer evolution hands in, or the run of this question


async def environment(state: HivaState, ctx: Ctx[HivaConfig]) -> Update:
    """Have the answer graded; without a grader, and in "w/o Env", the aggregator criticises itself in `loss`."""
    called = record_tool_calls(state.workflow, state.trajectories)
    if ctx.start is None or ctx.start.grader is None or not ctx.options.environment:
        return state.update(solved=None, workflow=called)
    [done] = state.trajectories
    feedback = await ctx.start.grader(done.question, done.answer or "", ctx.scope)
    return state.update(
        trajectories=[done.with_feedback(feedback)], solved=feedback.solved, oracle=True, workflow=called
    )


async def loss(state: HivaState, ctx: Ctx[HivaConfig]) -> Update:
    """Compute the textual loss of every run, and its gradient at the aggregator."""
    critic, graded, toolbox = get_critic(ctx), ctx.options.environment, ctx.get_tools(state.workflow)

    async def compute(done: Trajectory) -> Loss:
        by_others = graded and done.feedback is not None
        return await compute_loss(done, state.workflow, critic, environment=by_others, toolbox=toolbox, scope=ctx.scope)

    losses = await gather_all(map(compute, state.trajectories))
    judged = [found.solved for found in losses if found.solved is not None]
    return state.update(
        ran=state.workflow,
        passes=(),
        applied=(),
        declined=(),
        reflection=sum_usages(found.usage for found in losses),
        losses=losses,
        solved=all(judged) if judged else None,
    )


async def backward(state: HivaState, ctx: Ctx[HivaConfig]) -> Update:
    """Apply the textual chain rule in every run that was not solved."""
    critic, graded = get_critic(ctx), ctx.options.environment

    async def propagate(done: Trajectory, found: Loss) -> Backward | None:
        if found.gradient is None:
            return None
        read, toolbox = done if graded else done.replace(feedback=None), ctx.get_tools(state.workflow)
        return await propagate_gradients(read, state.workflow, found.gradient, critic, toolbox=toolbox, scope=ctx.scope)

    passes = await gather_all(map(propagate, state.trajectories, state.losses))
    usage = sum_usages([state.reflection, *(made.usage for made in passes if made)])
    return state.update(passes=passes, reflection=usage)


async def evolve_semantics(state: HivaState, ctx: Ctx[HivaConfig]) -> Update:
    """f_P: change tools by the feedback on them; then, with these, rewrite prompts by what is left of it."""
    now, critic, trial = state.workflow, get_critic(ctx), ToolTrial(ctx.tools)
    tools = await evolve_tools(
        now, state.gradients, state.trajectories, critic, ctx.options, trial=trial, scope=ctx.scope
    )
    asked = [found for found in state.gradients if not ctx.is_frozen(found.agent)]
    left = [found.replace(tool="") if found.agent in tools.handled else found for found in asked]
    tooled, refused_tools = now.apply_legal(tools.rewirings)
    toolbox = ctx.get_tools(tooled)
    prompts = await propose_rewrites(tooled, left, critic, ctx.options, toolbox=toolbox, scope=ctx.scope)
    team, refused_prompts = tooled.apply_legal(prompts.rewirings)
    proposed, refused = (*tools.rewirings, *prompts.rewirings), (*refused_tools, *refused_prompts)
    out = {refusal.rewiring for refusal in refused}
    return state.update(
        workflow=team,
        reflection=sum_usages([state.reflection, tools.usage, prompts.usage]),
        applied=[rewiring for rewiring in proposed if rewiring not in out],
        declined=[*tools.declined, *prompts.declined, *map(DeclinedProposal.of, refused)],
    )


async def evolve_topology(state: HivaState, ctx: Ctx[HivaConfig]) -> Update:
    """f_G: decide on one edit per node, and apply the edits in reverse topological order."""
    team, options = state.workflow, ctx.options
    asked = list_parallel_tasks(team, state.gradients, options)
    runs, usage = await note_concepts(
        state.trajectories, asked, lambda question, named: name_concepts(question, team, ctx, named)
    )
    found = await decide_edits(
        team,
        state.gradients,
        runs,
        get_critic(ctx),
        options,
        toolbox=ctx.get_tools(team),
        scope=ctx.scope,
    )
    return state.update(
        workflow=found.workflow,
        trajectories=runs,
        reflection=sum_usages([state.reflection, usage, found.usage]),
        applied=[*state.applied, *found.applied],
        declined=[*state.declined, *found.declined],
    )


async def update_beliefs(state: HivaState, ctx: Ctx[HivaConfig]) -> Update:
    """Update beliefs, synergy and knowledge once by the whole batch."""
    passes = state.passes or [None] * len(state.losses)
    lessons = [
        make_lesson(
            done,
            found,
            made,
            await match_noted(done, state.ran, ctx.embed, ctx.find_copy),
            state.ran,
            ctx.objective,
        )
        for done, found, made in zip(state.trajectories, state.losses, passes, strict=True)
    ]
    return state.update(workflow=learn_lessons(state.workflow, lessons, config=ctx.options.routing))


async def repair(state: HivaState, ctx: Ctx[HivaConfig]) -> Update:
    """Apply RepairTopology, whose changes are recorded as rewirings; then the lineage from the team that ran."""
    found = repair_topology(state.workflow, ctx.options)
    team, applied, saved = fit_memory(found.workflow), [*state.applied, *found.rewirings], state.saved
    if team.fingerprint != state.ran.fingerprint:
        team = team.with_lineage(state.ran, applied)
        if ctx.start is not None and ctx.start.save is not None:
            step = int(get_config()["metadata"]["langgraph_step"])
            saved = (await ctx.start.save(team, ctx.scope, step)).ref
    return state.update(workflow=team, applied=applied, iteration=state.iteration + 1, saved=saved)


# Decisions


def enter(state: HivaState, ctx: Ctx[HivaConfig]) -> str:
    """A question is answered; graded runs, which begin without one, are learned from."""
    return "begin" if ctx.start else "loss"


def characterize_or_forward(state: HivaState, ctx: Ctx[HivaConfig]) -> str:
    """The task's concepts come first where the bandit needs them and does not know them yet."""
    return "characterize" if state.concepts is None and needs_concepts(state.workflow, ctx.options) else "forward"


def learn_or_end(state: HivaState, ctx: Ctx[HivaConfig]) -> str:
    """A question teaches only where a user has chosen so."""
    return "environment" if get_choices(ctx).evolve else END


def rewrite_or_keep(state: HivaState, ctx: Ctx[HivaConfig]) -> str:
    """On success nothing is rewritten (D2)."""
    return "backward" if any(found.gradient for found in state.losses) else "update_beliefs"


def again_or_end(state: HivaState, ctx: Ctx[HivaConfig]) -> str:
    """The changed team has another try at a question that it did not solve, while rounds are left."""
    left = state.iteration < get_choices(ctx).iterations
    return characterize_or_forward(state, ctx) if state.solved is False and left else END


figure = MethodGraph(HivaState, first="begin", team="forward")
figure.add_node(begin)
figure.add_sequence([characterize, forward])
figure.add_sequence([environment, loss])
figure.add_sequence([backward, evolve_semantics, evolve_topology, update_beliefs, repair])
figure.add_conditional_edges(START, enter, ["begin", "loss"])
figure.add_conditional_edges("begin", characterize_or_forward, ["characterize", "forward"])
figure.add_conditional_edges("forward", learn_or_end, ["environment", END])
figure.add_conditional_edges("loss", rewrite_or_keep, ["backward", "update_beliefs"])
figure.add_conditional_edges("repair", again_or_end, ["characterize", "forward", END])


def plan_router(hiva: "Hiva", team: Team) -> RouterPlan:
    """Plan how the router of a team that branches draws and learns.

    Raises:
        ConfigError: no run would ask it.
    """
    from selfwire.graphs.router import SAMPLING, list_branches  # imports numpy

    if hiva.config.router != "learned":
        raise ConfigError(f"{METHOD} is routed by something else here; leave its router at learned to train it")
    if not hiva.config.kabb:
        raise ConfigError("kabb is off, so every successor runs and no router is asked; leave it on to train one")
    if not list_branches(team):
        raise ConfigError(
            f"no agent of this team has two successors to choose from ({len(team.topology.nodes)} nodes), so a "
            "router has nothing to learn; name a team that branches with --team, such as one that was evolved"
        )
    return RouterPlan(RouterConfig(sampling=SAMPLING, transfer=True), hiva.config.train)


def _caps(config: HivaConfig) -> TopologyLimits:
    return TopologyLimits(nodes=config.nodes, successors=config.successors)


class Hiva(Method[HivaConfig]):
    """A team grows from one agent by textual gradients, and is routed by a knowledge-aware bandit."""

    name = METHOD
    summary = "grows a team from one agent by textual gradients, routes by a knowledge-aware bandit"
    config_type = HivaConfig
    choices = HivaContext
    build_options = frozenset({"grader", "embedder"})
    variants = FrozenMap(
        {
            FULL: Variant(title="full"),
            "no-tev": Variant(title="w/o TEV", config={"topology_evolution": False}),
            "no-sev": Variant(title="w/o SEV", config={"semantic_evolution": False}),
            "no-kabb": Variant(title="w/o KABB", config={"kabb": False}, choice=True),
            "no-env": Variant(title="w/o Env", config={"environment": False}, gate="off", against="no-gate"),
            "no-tool": Variant(title="w/o Tool", config={"tools": False}),
            "no-tool-evolution": Variant(title="tools fixed", config={"tool_evolution": False}),
            "random-tools": Variant(title="random changes of tools", config={"tool_writer": "random"}),
            "no-gate": Variant(title="no gate", gate="off"),
            RANDOM: Variant(title="random edits", random=True),
        }
    )
    figure = figure
    random_edits = True
    fits_held_out = True
    router = RouterTraining(plan_router, config={"router": "learned"})
    draw_learning = staticmethod(draw_learning)
    paper = (
        "Tang et al., *HiVA: Self-organized Hierarchical Variable Agent via Goal-driven Semantic-Topological "
        "Evolution*, arXiv 2509.00189"
    )
    departures = "D1-D35"

    @staticmethod
    def estimate_calls(config: HivaConfig, team: Team, batch: int, added_agents: float) -> CallEstimate:
        """Turns of the chosen agents, with hand-overs; a backward pass per task, then prompts, decisions and tools."""
        agents = min(len(team.topology.nodes) + added_agents, config.nodes)
        more = max(0, agents - len(team.topology.nodes))
        routed = needs_concepts(team, config) or (config.kabb and more > 0)
        turns, instructions = estimate_turns(team, config)
        question = {"agent": count_turn_calls(team, turns) + LOOP * more, "meta": routed + instructions + more / 4}
        tools = 1 + (CODE_TRIES if config.tool_writer == "model" else 0) if config.evolves_tools else 0
        return CallEstimate(question, learning={"meta": batch * (2 + agents) + agents * (2 + tools)})

    @property
    def prompts(self) -> Prompts:
        """Prompts of the critics and of the initial team."""
        return load_prompts("evolvers", METHOD)

    def seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> Team:
        """The singleton, an agent that works, and an aggregator that answers.

        The tools are the source's, and later its newcomers'; without `config.tools` (w/o Tool) there are none.
        """
        held = tuple(tools) if self.config.tools else ()
        source = self.prompts.text(SOURCE, tools=TOOLS if held else "").strip()
        aggregator = self.prompts.text(AGGREGATOR).strip()
        team = Team(
            method=METHOD,
            agents=(
                Agent(id=SOURCE, role="Works on the task.", prompt=source, tools=held),
                Agent(id=AGGREGATOR, role="Gives the team's answer.", prompt=aggregator, kind="aggregator"),
            ),
            topology=make_chain(SOURCE, AGGREGATOR, caps=_caps(self.config)),
        )
        return HivaMemory().restrict_to(team).save_to(team)

    def adapt(self, team: Team) -> Team:
        """An existing team with the config's caps, and without tools in "w/o Tool".

        Raises:
            ConfigError: the team is larger than the caps.
        """
        config = self.config
        nodes, successors = len(team.topology.nodes), max(map(len, team.topology.successors.values()))
        if nodes > config.nodes or successors > config.successors:
            raise ConfigError(
                f"the team has {nodes} nodes with up to {successors} successors, and the config allows "
                f"nodes={config.nodes} and successors={config.successors}; raise these, or start from a smaller team"
            )
        capped = team.replace(topology=team.topology.replace(caps=_caps(config)))
        bare = capped.replace(agents=tuple(agent.replace(tools=()) for agent in capped.agents), tools=())
        if config.tools or bare == capped or MEMORY_KEY not in capped.memory:
            return capped if config.tools else bare
        learned = HivaMemory.of(capped)
        return learned.replace(knowledge=learned.knowledge.with_agents(bare.agents)).save_to(bare)

    @staticmethod
    def fit_config(config: HivaConfig, team: Team) -> HivaConfig:
        """The config with caps that leave room for the team."""
        return config.replace(
            nodes=max(config.nodes, len(team.topology.nodes)),
            successors=max(config.successors, *map(len, team.topology.successors.values())),
        )

    def check_learned(self, team: Team, embedder: str) -> None:
        """Read everything that the team has learned; raises as `Method.check_learned`."""
        HivaMemory.of(team)

    async def answer(self, team: Team, question: Question, ctx: Ctx[HivaConfig]) -> Trajectory:
        """Put a question to the team once.

        Raises:
            ModelError: the task could not be characterised.
            BudgetError: the run must stop.
        """
        [done] = (await run_graph(self.compiled, HivaState, ctx.with_question(team, question))).trajectories
        return done

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[HivaConfig]) -> EvolveResult:
        """Rewire the team by one pass from loss to repair over graded runs.

        Its notes hold the declined proposals, the first gradients as they flowed back, the number of unsolved tasks,
        how often the mismatch limit left out a candidate (D7), and the cost of the reflection.
        """
        steps = {"edges": "topology_evolution", "tools": "tool_evolution"}
        fixed = {step: False for part, step in steps.items() if part in ctx.frozen}
        ctx = replace(ctx, options=ctx.options.replace(**fixed))
        final = await run_graph(self.compiled, HivaState, ctx, workflow=team, trajectories=runs, scope=ctx.scope)
        notes = {
            "declined": final.channels["declined"],
            "gradients": note_passes(final.trajectories, final.passes),
            "unsolved": sum(not found.solved for found in final.losses),
            "left_out": HivaMemory.of(final.workflow).left_out - HivaMemory.of(team).left_out,
            "meta": {"calls": final.reflection.calls, "tokens": final.reflection.tokens},
        }
        if not self.config.environment:
            notes |= count_agreement(runs, final.losses)
        return EvolveResult(workflow=final.workflow, applied=final.applied, notes=notes)

    @property
    def sees_labels(self) -> bool:
        """Not in "w/o Env"."""
        return self.config.environment

    def fits(self, team: Team) -> bool:
        """Where the bandit has a choice, which omega weighs."""
        return self.config.environment and needs_concepts(team, self.config)

    async def fit(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[HivaConfig]) -> Team:
        """Refit omega to held-out runs; never in "w/o Env", which has no verdicts to fit to."""
        if not self.config.environment:
            return team
        matches = [(done, await match_noted(done, team, ctx.embed)) for done in runs]
        return refit_weights(team, [make_weight_sample(done, team, match) for done, match in matches if match])

    def keep_memory(self, kept: Team, rejected: Team) -> Team:
        """The kept team with the rejected one's beliefs about agents and edges that both have."""
        return carry_over_learning(kept, rejected)

    def reads_memory(self, team: Team) -> bool:
        """Where a router has a choice; beliefs and concepts decide nothing else."""
        return needs_concepts(team, self.config) or has_learned_router(team, self.config)

    def propose_pruning(self, team: Team, worth: Mapping[str, float]) -> Rewiring | None:
        """The rewiring that removes the agent of the least worth, then of the lowest belief; None if nothing can go."""
        return propose_least_helpful_removal(team, worth)


def get_critic(ctx: Ctx[HivaConfig]) -> PromptedModel:
    """The meta model with HiVA's prompts, which repeat no long line."""
    return replace(ctx.critic, quotes_once=True)


def get_choices(ctx: Ctx[HivaConfig]) -> HivaContext:
    """A user's choices for this run; the defaults where the package runs the graph."""
    return ctx.choices if isinstance(ctx.choices, HivaContext) else HivaContext()


async def name_concepts(
    question: Question, team: Team, ctx: Ctx[HivaConfig], named: Collection[str] = ()
) -> tuple[TaskConcepts, Usage]:
    """Name a task's concepts, and say what that has cost; the tools are those that the team holds."""
    held = {tool for agent in team.agents for tool in agent.tools}
    tools = [tool.spec for name, tool in sorted(ctx.get_tools(team).items()) if name in held]
    return await characterize_task(question, team, get_critic(ctx), tools=tools, named=named, scope=ctx.scope)


build, graph = make_build(Hiva), make_server(Hiva)
