"""HERA's figure as a LangGraph (Li and Ramakrishnan, "Experience as a Compass", Fig. 1, Alg. 1 to 6).

    a question -> begin -> characterize -> retrieve_insights -> sample_topologies -> rollout (the teams, in parallel)
                                                                                      |  ^
                                       [nothing is to be learned] END <---------------+  |
                                                                                      v  |
    graded runs ------------------------------------------------------------------> rank -> [every score 0]
                                                                                      |     mutate_topology
                  reflect <------------------ [mixed outcomes] -----------------------+     (one more group: rollout)
                     |                                                                |
                     v                                                                |
           consolidate_experience ----------> [a failure] identify_failed_agent <-----+
                     |                                      |
                     |                                      v
                     |                  rope (variants, re-execution) -> consolidate_prompt
                     v                                                        |
                   keep <-----------------------------------------------------+
                     |
                     v
                    END

A question is answered by one team, or by a group of G teams where groups are compared. A user may have the team learn
from the group of one question; the outer evolution runs and grades the groups of a whole batch and hands them in.
`rope` is the paper's role-aware prompt evolution; `keep` only sets the lineage and saves.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.chat import Prompts, load_prompts
from selfwire.core.edits import RefusedRewiring, Rewiring
from selfwire.core.errors import ConfigError, ModelError, TaskBudgetError, TaskError, format_error, get_error_cost
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenMap
from selfwire.evolvers.hera import failures, mutation
from selfwire.evolvers.hera import library as insight_library
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.failures import (
    Blame,
    Failure,
    add_failure,
    choose_blames,
    get_buffers,
    make_failure,
    with_buffers,
)
from selfwire.evolvers.hera.groups import Group, count_uses, make_groups, rank_trajectories
from selfwire.evolvers.hera.initial_team import (
    METHOD,
    has_one_plan,
    list_pool,
    make_default_topology,
    make_initial_team,
    note_removed,
)
from selfwire.evolvers.hera.library import (
    Insight,
    Profile,
    get_library,
    select_insights,
    update_utilities,
    with_library,
)
from selfwire.evolvers.hera.mutation import (
    JOIN,
    TriedMutation,
    apply_wanted,
    find_hopeless,
    get_mutated,
    join_pool,
    propose_mutations,
    with_mutated,
)
from selfwire.evolvers.hera.pictures import draw_learning, draw_run, note_groups
from selfwire.evolvers.hera.planning import (
    Brief,
    PlannedRun,
    TeamPlan,
    characterize_query,
    choose_typical_plans,
    list_shorter_plans,
    note_plan,
    note_profile,
    sample_topology,
)
from selfwire.evolvers.hera.reflection import (
    InsightChange,
    consolidate_insights,
    get_profile,
    get_topology,
    reflect_on_group,
)
from selfwire.evolvers.hera.rope import (
    PromptLesson,
    Rope,
    blame_agent,
    count_recalls,
    extract_lesson,
    generate_variant,
    integrate_lesson,
)
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trajectory_text import describe_tools, gather_all, get_score
from selfwire.graphs.build import make_build
from selfwire.graphs.machine import (
    DETACHED,
    END,
    START,
    Ctx,
    CtxFactory,
    Graph,
    MethodGraph,
    RunContext,
    RunStart,
    State,
    Update,
    make_state_error,
    run_graph,
)
from selfwire.graphs.method import FULL, RANDOM, CallEstimate, EvolveResult, Method, Variant, count_turn_calls
from selfwire.graphs.serve import make_server
from selfwire.graphs.team import TeamContext, run_team
from selfwire.nodes.agent import make_agent_runner

REPLAY_TEMPERATURE = 0.0  # so that the prompt makes the difference
CONTROL = "original"  # names the replay with the unchanged prompt, beside the axes
LEARNED = (insight_library.MEMORY, failures.MEMORY, mutation.MEMORY)
"""Names in a team's memory; what they hold is true whatever prompts are kept."""


class HeraContext(RunContext):
    """Choices per run; the description of each field says what it does."""

    evolve: bool = Field(default=False, description="Whether the team learns from this question, by a group of runs.")


class HeraState(State):
    """State of a question, or of a batch of graded runs: channels beside those of every method.

    Attributes:
        answer: of the single run, or of the best-ranked run of the group.
        aim: to answer a question by one run, to explore it by a group of runs, or to learn from groups.
        ran: the team that the trajectories come from.
        workflow: the team with what is learned so far.
        planned: runs to make.
        trajectories: of the batch, those of mutated topologies after the others.
        counted: how many of them have moved utilities.
        mutated: questions that had their second group in this step.
        insights: new ones, per mixed group.
        changes: the fate of each in the library.
        ropes: results of variants and replays, per agent.
        reflection: cost of learning, without the runs.
        oracle: whether labels were used on this very question.
    """

    aim: Literal["answer", "explore", "learn"] = "answer"
    ran: Team
    workflow: Team
    brief: Brief = Brief()
    planned: tuple[PlannedRun, ...] = ()
    trajectories: tuple[Trajectory, ...] = ()
    counted: int = 0
    groups: tuple[Group, ...] = ()
    tried: tuple[TriedMutation, ...] = ()
    mutated: tuple[str, ...] = ()
    blames: tuple[Blame, ...] = ()
    insights: tuple[tuple[Insight, ...], ...] = ()
    changes: tuple[InsightChange, ...] = ()
    ropes: tuple[Rope, ...] = ()
    applied: tuple[Rewiring, ...] = ()
    refused: tuple[RefusedRewiring, ...] = ()
    reflection: Usage = Usage()
    oracle: bool = False


async def begin(state: HeraState, ctx: Ctx[HeraConfig]) -> Update:
    """Take a new question."""
    evolve = isinstance(ctx.choices, HeraContext) and ctx.choices.evolve
    if evolve and (ctx.start is None or ctx.start.grader is None):
        raise ConfigError("the team cannot learn from this question: nothing says what its answers are worth")
    question, team, scope = await ctx.begin(state, state.workflow if "workflow" in state else None)
    ctx.edit(team)  # refused before anything is paid
    aim = state.aim
    if ctx.served:
        aim, scope = "learn" if evolve else "answer", scope.at(phase="rollout")
    return state.restart(question, scope, answer="", aim=aim, ran=team, workflow=team)


async def characterize(state: HeraState, ctx: Ctx[HeraConfig]) -> Update:
    """Find c, the profile of the question (Alg. 4, line 2), where insights can be retrieved by it (D22)."""
    if has_one_plan(state.workflow) or not (ctx.options.library and get_library(state.workflow)):
        return state.update(brief=Brief())
    profile, usage = await characterize_query(state.get_question(), get_orchestrator(ctx), scope=ctx.scope)
    return state.update(brief=Brief(profile=profile, usage=usage))


async def retrieve_insights(state: HeraState, ctx: Ctx[HeraConfig]) -> Update:
    """Find E_rel, insights from similar questions (Alg. 4, lines 3 to 8); none in "w/o experience library"."""
    if state.brief.profile is None:
        return {}
    library = get_library(state.workflow)
    insights = await select_insights(library, state.brief.profile, ctx.embed, ctx.options.experience)
    return state.update(brief=state.brief.replace(insights=insights))


async def sample_topologies(state: HeraState, ctx: Ctx[HeraConfig]) -> Update:
    """Plan one topology, or G for a group (Alg. 4, line 9); a member of a group whose plan fails ends as an error.

    A team with one plan explores and answers by it (D25).

    Raises:
        ModelError: planning failed; in a group of a user's run, for all members.
    """
    alone, question, brief = state.aim == "answer", state.get_question(), state.brief
    orchestrator, team, steps = get_orchestrator(ctx), state.workflow, ctx.options.steps
    if not alone:
        orchestrator = replace(orchestrator, temperature=ctx.options.explore_temperature)
    samples = [ctx.scope.sample] if alone else list(range(ctx.options.group))

    async def plan(sample: int) -> tuple[PlannedRun, ModelError | TaskBudgetError | None]:
        scope, shared = ctx.scope.at(sample=sample), brief.usage if sample == samples[0] else Usage()
        blank = PlannedRun(question=question, sample=sample)
        if has_one_plan(team):
            topology = make_default_topology(team)
            return blank.replace(topology=topology, notes=note_plan(brief, TeamPlan(topology=topology))), None
        try:
            found, usage = await sample_topology(
                question, team, brief, orchestrator, toolbox=ctx.get_tools(team), steps=steps, scope=scope
            )
        except ModelError as error:
            error.cost = shared + get_error_cost(error)
            return blank.replace(fault=format_error(error), overhead=error.cost), error
        except TaskBudgetError as error:
            return blank.replace(fault=str(error)), error
        notes = note_plan(brief, found)
        return blank.replace(topology=found.topology, notes=notes, overhead=shared + usage), None

    planned = await gather_all(plan(sample) for sample in samples)
    errors = [error for _, error in planned if error]
    if len(errors) == len(planned) and state.aim != "explore":
        raise errors[0]
    return state.update(planned=[run for run, _ in planned])


async def rollout(state: HeraState, ctx: Ctx[HeraConfig]) -> Update:
    """Execute the planned runs, those of a group side by side.

    Raises:
        TaskError: no run has an answer, in a graph that a user runs.
    """
    if state.aim != "answer":
        done = await gather_all(run_planned(run, state.workflow, ctx) for run in state.planned)
        first = len(state.trajectories)
        tried = [
            TriedMutation(place=place, candidate=run.candidate)
            for place, run in enumerate(state.planned, first)
            if run.candidate
        ]
        trajectories = [*state.trajectories, *done]
        update = state.update(planned=(), trajectories=trajectories, tried=[*state.tried, *tried])
        return update | state.update(answer=get_best_answer(trajectories), oracle=True) if ctx.served else update
    if len(state.planned) != 1:
        raise make_state_error("planned", f"a question is answered by one plan, not {len(state.planned)}")
    [run] = state.planned
    scoped = ctx.where(sample=run.sample)
    answered = await execute(run, ctx.edit(state.workflow), ctx.options.temperature, scoped, config=ctx.team_config)
    ctx.require_answer(answered)
    return state.update(
        planned=(),
        trajectories=[answered.replace(notes=run.notes, overhead=run.overhead)],
        answer=answered.answer,
        usage=state.usage + answered.usage,
    )


async def rank(state: HeraState, ctx: Ctx[HeraConfig]) -> Update:
    """Rank the groups, update utilities of the insights that were shown, add newcomers that helped to the pool."""
    success_at, team, done = ctx.options.success_at, state.workflow, state.trajectories
    if ctx.options.library:
        counts = count_uses(done[state.counted :], success_at)
        team = with_library(team, update_utilities(get_library(team), counts))
    new = [tried for tried in state.tried if tried.place >= state.counted]
    team, joined, refused = join_pool(team, new, done, success_at)
    return state.update(
        groups=make_groups(done, success_at),
        counted=len(done),
        workflow=team,
        applied=[*state.applied, *joined],
        refused=[*state.refused, *refused],
    )


async def mutate_topology(state: HeraState, ctx: Ctx[HeraConfig]) -> Update:
    """Plan candidates for every group that scored nothing and had no second chance yet (Alg. 6)."""
    due = list_due(state, ctx)
    found = await gather_all(plan_mutations(group, state, ctx) for group in due)
    return state.update(
        planned=[run for runs, _, _ in found for run in runs],
        mutated=[*state.mutated, *(group.question for group in due)],
        blames=[*state.blames, *(blame for _, blame, _ in found if blame)],
        reflection=sum_usages([state.reflection, *(usage for *_, usage in found)]),
    )


async def reflect(state: HeraState, ctx: Ctx[HeraConfig]) -> Update:
    """Draw insights from the groups with successes and failures (Alg. 2)."""
    found = await gather_all(learn_from_group(group, state, ctx) for group in state.groups if group.outcome == "mixed")
    return state.update(
        insights=[insights for insights, _ in found],
        reflection=sum_usages([state.reflection, *(usage for _, usage in found)]),
    )


async def consolidate_experience(state: HeraState, ctx: Ctx[HeraConfig]) -> Update:
    """Update the library by every group's insights, one group after the other (Alg. 3)."""
    library, changes, spent = get_library(state.workflow), list(state.changes), state.reflection
    orchestrator = get_orchestrator(ctx)
    for number, new in enumerate(state.insights):
        library, more, usage = await consolidate_insights(
            library,
            new,
            orchestrator,
            ctx.embed,
            ctx.options.experience,
            find_copy=ctx.find_copy,
            scope=ctx.scope.at(visit=number),
        )
        changes += more
        spent += usage
    return state.update(workflow=with_library(state.workflow, library), changes=changes, reflection=spent)


async def identify_failed_agent(state: HeraState, ctx: Ctx[HeraConfig]) -> Update:
    """Find the agent to blame for the best-ranked failed trajectory of each group."""
    blames = {blame.place: blame for blame in state.blames}
    places = [group.failed for group in state.groups if group.failed is not None]
    team, orchestrator, toolbox = state.workflow, get_orchestrator(ctx), ctx.get_tools(state.workflow)
    found = await gather_all(
        blame_agent(place, state.trajectories[place], team, orchestrator, toolbox=toolbox, scope=ctx.scope)
        for place in places
        if place not in blames
    )
    blames |= {blame.place: blame for blame, _ in found if blame}
    return state.update(
        blames=[blames[place] for place in places if place in blames],
        reflection=sum_usages([state.reflection, *(usage for _, usage in found)]),
    )


async def rope(state: HeraState, ctx: Ctx[HeraConfig]) -> Update:
    """Vary the prompts of the agents that are blamed most, replay their failures and contrast the results (Alg. 5)."""
    team, config = state.workflow, ctx.options.prompts
    buffers = get_buffers(team)
    known = [blame for blame in state.blames if blame.agent in team.agents_by_id]  # newcomers may be out again
    blames = [blame for blame in known if not ctx.is_frozen(blame.agent)]
    for blame in blames:
        failure = make_failure(state.trajectories[blame.place], blame)
        buffers = add_failure(buffers, blame.agent, failure, config.buffer)
    found = await gather_all(
        vary_prompt(blame, buffers[blame.agent], state, ctx) for blame in choose_blames(blames, config.agents)
    )
    counts = count_recalls([rope for rope, _ in found], ctx.options.success_at)
    library = update_utilities(get_library(team), counts)
    return state.update(
        workflow=with_library(with_buffers(team, buffers), library),
        ropes=[rope for rope, _ in found],
        reflection=sum_usages([state.reflection, *(usage for _, usage in found)]),
    )


async def consolidate_prompt(state: HeraState, ctx: Ctx[HeraConfig]) -> Update:
    """Pi_C: apply the lessons of the contrasts as prompt diffs."""
    agents, orchestrator, config = state.workflow.agents_by_id, get_orchestrator(ctx), ctx.options.prompts
    found = await gather_all(
        integrate_lesson(agents[rope.blame.agent], rope.lesson, orchestrator, config, scope=ctx.scope)
        for rope in state.ropes
    )
    now, applied, refused = apply_wanted(state.workflow, [rewiring for rewiring, _, _ in found if rewiring])
    return state.update(
        workflow=now,
        ropes=[rope.replace(left_out=diff.left_out) for rope, (_, diff, _) in zip(state.ropes, found, strict=True)],
        applied=[*state.applied, *applied],
        refused=[*state.refused, *refused],
        reflection=sum_usages([state.reflection, *(usage for *_, usage in found)]),
    )


async def keep(state: HeraState, ctx: Ctx[HeraConfig]) -> Update:
    """Set the lineage from the team that ran, and save what differs from it."""
    runs = [state.trajectories[tried.place] for tried in state.tried]
    graded = {done.question.id for done in runs if get_score(done) is not None}
    second = [question for question in state.mutated if question in graded]  # an outage takes no question's chance
    now = with_mutated(state.workflow, second)
    if now.fingerprint != state.ran.fingerprint:
        now = now.with_lineage(state.ran, state.applied)
        if ctx.start is not None and ctx.start.save is not None:
            await ctx.start.save(now, state.scope, state.scope.iteration)
    return state.update(workflow=now)


def ask_or_learn(state: HeraState, ctx: Ctx[HeraConfig]) -> str:
    """A question is answered, and graded runs are learned from."""
    return "rank" if ctx.start is None else "begin"


def rank_or_end(state: HeraState, ctx: Ctx[HeraConfig]) -> str:
    """Groups that are to teach something are ranked."""
    return "rank" if state.aim == "learn" else END


def choose_after_rank(state: HeraState, ctx: Ctx[HeraConfig]) -> str:
    """A second group for questions that scored nothing, insights from mixed groups, or prompts at once.

    A team with one plan learns prompts only, as nobody would plan by the rest (D25).
    """
    if has_one_plan(state.workflow):
        return choose_prompts(state, ctx)
    if list_due(state, ctx):
        return "mutate_topology"
    mixed = any(group.outcome == "mixed" for group in state.groups)
    return "reflect" if ctx.options.library and mixed else choose_prompts(state, ctx)


def choose_prompts(state: HeraState, ctx: Ctx[HeraConfig]) -> str:
    """Prompts evolve where a group has a failure."""
    failed = any(group.failed is not None for group in state.groups)
    return "identify_failed_agent" if ctx.options.rope and failed and "prompts" not in ctx.frozen else "keep"


figure = MethodGraph(HeraState, first="begin", team="rollout")
figure.add_conditional_edges(START, ask_or_learn, ["begin", "rank"])
figure.add_sequence([begin, characterize, retrieve_insights, sample_topologies, rollout])
figure.add_conditional_edges("rollout", rank_or_end, ["rank", END])
figure.add_node(rank)
figure.add_conditional_edges("rank", choose_after_rank, ["mutate_topology", "reflect", "identify_failed_agent", "keep"])
figure.add_node(mutate_topology)
figure.add_edge("mutate_topology", "rollout")
figure.add_sequence([reflect, consolidate_experience])
figure.add_conditional_edges("consolidate_experience", choose_prompts, ["identify_failed_agent", "keep"])
figure.add_sequence([identify_failed_agent, rope, consolidate_prompt, keep])
figure.add_edge("keep", END)


def get_orchestrator(ctx: Ctx[HeraConfig]) -> PromptedModel:
    """The meta model with HERA's prompts; a passage stands in a prompt once."""
    return replace(ctx.critic, quotes_once=True)


async def execute(
    run: PlannedRun,
    team: Team,
    temperature: float,
    ctx: Ctx[HeraConfig],
    *,
    agents: Mapping[str, Agent] | None = None,
    config: RunnableConfig | None = DETACHED,
) -> Trajectory:
    """Execute(Gamma, q, D): run a topology of the pool's agents once.

    Args:
        temperature: of agents that state none.
        agents: instead of the team's, for prompt variants and newcomers.
        ctx: with `ask_graph` it runs the user's graph, as that is and at its own temperature.
        config: of the team's graph; None makes it part of the running graph.
    """
    assert run.topology is not None, "only what is planned is executed"
    if ctx.ask_graph is not None:
        known = {**team.agents_by_id, **(agents or {})}
        return await ctx.ask_graph(team.replace(agents=tuple(known.values())), run.question, ctx)
    act = make_agent_runner(ctx.model, ctx.get_tools(team), temperature=temperature)
    context = TeamContext.of(team, run.question, ctx.scope.at(task=run.question.id), act, agents=agents)
    return await run_team(run.topology, context, config=config)


async def run_planned(run: PlannedRun, team: Team, ctx: Ctx[HeraConfig]) -> Trajectory:
    """Execute a run of a group, and have it graded where groups are learned from.

    A run that could not be planned, or that the calls of its task do not suffice for, ends as an error.
    """
    blank = Trajectory(question=run.question, workflow=team.fingerprint, sample=run.sample)
    if run.topology is None:
        return blank.replace(overhead=run.overhead).as_failed(run.fault)
    newcomer = run.candidate.newcomer if run.candidate else None
    agents = {**team.agents_by_id, newcomer.id: newcomer} if newcomer else None
    scoped = ctx.where(task=run.question.id, sample=run.sample)
    try:
        done = await execute(run, team, ctx.options.explore_temperature, scoped, agents=agents)
    except TaskBudgetError as error:
        return blank.as_failed(str(error))
    return await grade(done.replace(notes=run.notes, overhead=run.overhead), scoped)


async def grade(done: Trajectory, ctx: Ctx[HeraConfig]) -> Trajectory:
    """Add the feedback of the environment, if there is one, to a trajectory with an answer."""
    if ctx.grade_run is not None:
        return await ctx.grade_run(done, ctx.scope)
    grader = ctx.start.grader if ctx.start else None
    if grader is None or done.answer is None or done.error is not None:
        return done
    return done.with_feedback(await grader(done.question, done.answer, ctx.scope))


def get_best_answer(done: Sequence[Trajectory]) -> str:
    """The answer of the best-ranked trajectory.

    Raises:
        TaskError: none was graded.
    """
    graded = [place for place, trajectory in enumerate(done) if get_score(trajectory) is not None]
    if not graded:
        why = next((trajectory.error for trajectory in done if trajectory.error), "nothing was graded")
        raise TaskError(f"no run of the group has an answer, the first for: {why}; invoke the thread again with None")
    return done[rank_trajectories(done, graded)[0]].answer or ""


async def learn_from_group(group: Group, state: HeraState, ctx: Ctx[HeraConfig]) -> tuple[tuple[Insight, ...], Usage]:
    """The insights of a group, whose question is characterised by now (D22)."""
    best, orchestrator = state.trajectories[group.order[0]], get_orchestrator(ctx)
    profile, usage = await find_profile(best, ctx)
    iteration, success_at = ctx.scope.iteration, ctx.options.success_at
    insights, more = await reflect_on_group(
        group, state.trajectories, profile, orchestrator, success_at=success_at, iteration=iteration, scope=ctx.scope
    )
    return insights, usage + more


async def find_profile(done: Trajectory, ctx: Ctx[HeraConfig]) -> tuple[Profile, Usage]:
    """Find the profile of a trajectory's question; it is characterised now where it was not before."""
    if profile := get_profile(done):
        return profile, Usage()
    plain = replace(get_orchestrator(ctx), guide="")  # as in the work on a task
    return await characterize_query(done.question, plain, scope=ctx.scope, catch=ModelError)


async def recall_insights(failed: Trajectory, team: Team, ctx: Ctx[HeraConfig]) -> tuple[tuple[Insight, ...], Usage]:
    """Find insights from questions like that of a failure for variants of a prompt; none where plans get them."""
    library = get_library(team)
    if ctx.ask_graph is None or not (ctx.options.library and library):
        return (), Usage()
    profile, usage = await find_profile(failed, ctx)
    return await select_insights(library, profile, ctx.embed, ctx.options.experience), usage


def list_due(state: HeraState, ctx: Ctx[HeraConfig]) -> list[Group]:
    """Groups whose topologies are to be mutated."""
    return find_hopeless(state.groups, {*get_mutated(state.ran), *state.mutated}) if ctx.options.mutation else []


async def plan_mutations(
    group: Group, state: HeraState, ctx: Ctx[HeraConfig]
) -> tuple[list[PlannedRun], Blame | None, Usage]:
    """Plan a run for each mutation of the best topology of a group, around the agent that is to blame."""
    members, scope = [state.trajectories[place] for place in group.order], ctx.scope.at(task=group.question)
    best, team, orchestrator = members[0], state.workflow, get_orchestrator(ctx)
    toolbox = ctx.get_tools(team)
    blame, usage = await blame_agent(group.order[0], best, team, orchestrator, toolbox=toolbox, scope=scope)
    if blame is None or get_topology(best) is None:
        return [], blame, usage
    held = {
        name: toolbox[name]
        for name in sorted({tool for agent in team.agents for tool in agent.tools})
        if name in toolbox
    }
    candidates, more = await propose_mutations(
        members, blame, team, orchestrator, tools=held, pool=ctx.options.pool, scope=scope
    )
    planned = [
        PlannedRun(
            question=best.question,
            topology=candidate.topology,
            sample=sample,
            notes={
                **note_profile(get_profile(best)),
                "insights": [],  # none of them shaped this topology
                "topology": candidate.topology.model_dump(mode="json"),
                "mutation": candidate.why,
            },
            candidate=candidate,
        )
        for sample, candidate in enumerate(candidates[: ctx.options.group], 1 + max(done.sample for done in members))
    ]
    return planned, blame, usage + more


async def vary_prompt(
    blame: Blame, buffer: tuple[Failure, ...], state: HeraState, ctx: Ctx[HeraConfig]
) -> tuple[Rope, Usage]:
    """Replay a failure with variants of the blamed agent's prompt and with the prompt itself, and contrast the runs."""
    newcomers = [tried.candidate.newcomer for tried in state.tried]
    pool = {**{agent.id: agent for agent in newcomers if agent}, **state.workflow.agents_by_id}
    agent, failed, orchestrator = pool[blame.agent], state.trajectories[blame.place], get_orchestrator(ctx)
    run = PlannedRun(question=failed.question, topology=get_topology(failed) or state.workflow.topology)

    async def replay(name: str, prompt: str) -> Trajectory:
        phase, agents = f"{ctx.scope.phase}/rope {agent.id} {name}", {**pool, agent.id: agent.replace(prompt=prompt)}
        scoped = ctx.where(phase=phase, task=failed.question.id, sample=failed.sample)
        return await grade(await execute(run, state.workflow, REPLAY_TEMPERATURE, scoped, agents=agents), scoped)

    tools = describe_tools(agent.tools, state.workflow, ctx.get_tools(state.workflow))
    insights, recalled = await recall_insights(failed, state.workflow, ctx)
    asked = await gather_all(
        generate_variant(agent, axis, buffer, orchestrator, insights, tools=tools, scope=ctx.scope)
        for axis in ctx.options.prompts.axes
    )
    variants = [variant for variant, _ in asked if variant]
    prompts = [(CONTROL, agent.prompt), *((varied.axis, varied.prompt) for varied in variants)] if variants else []
    replays = await gather_all(replay(name, text) for name, text in prompts)
    lesson, usage = PromptLesson(), Usage()
    if replays:
        pairs = list(zip([None, *variants], replays, strict=True))
        lesson, usage = await extract_lesson(agent, failed, pairs, buffer, orchestrator, tools=tools, scope=ctx.scope)
    tested = Rope(
        blame=blame,
        failures=buffer,
        variants=tuple(variants),
        scores=tuple(get_score(done) for done in replays[1:]),
        control=get_score(replays[0]) if replays else None,
        insights=tuple(insight.id for insight in insights),
        lesson=lesson,
    )
    return tested, sum_usages([recalled, *(cost for _, cost in asked), *(done.usage for done in replays), usage])


def note_learning(final: HeraState, given: int) -> dict[str, Any]:
    """Notes of a pass from rank to keep.

    They hold the outcomes of the groups and their runs in short, the fate of new insights and of the prompts of failing
    agents, the size of the library, and the cost of learning without the batch's own runs, which are the first `given`.
    """
    outcomes = [group.outcome for group in final.groups]
    newcomers = sum(tried.candidate.newcomer is not None for tried in final.tried)
    joined = sum(rewiring.operation == JOIN for rewiring in final.applied)
    return {
        "tried": [JOIN] * (newcomers - joined),
        "groups": {outcome: outcomes.count(outcome) for outcome in ("mixed", "zero", "other")},
        "compared": note_groups(final.groups, final.trajectories),
        "mutated": [
            {"question": done.question.id, "why": done.notes["mutation"], "score": get_score(done)}
            for done in final.trajectories[given:]
        ],
        "changes": [change.model_dump(mode="json") for change in final.changes],
        "ropes": [
            {
                "agent": tested.blame.agent,
                "cause": tested.blame.cause,
                "axes": [variant.axis for variant in tested.variants],
                **tested.model_dump(mode="json", include={"scores", "control", "lesson", "left_out"}),
            }
            for tested in final.ropes
        ],
        "refused": [refusal.model_dump(mode="json") for refusal in final.refused],
        "insights": len(get_library(final.workflow)),
        "learning": {"calls": final.reflection.calls, "tokens": final.reflection.tokens},
    }


class Hera(Method[HeraConfig]):
    """Plans a team per question, and learns from groups of plans: insights, prompts and newcomers."""

    name = METHOD
    summary = (
        "plans a team per question, compares groups of plans, "
        "keeps what made the difference in an experience library, rewrites the prompts of agents that fail"
    )
    config_type = HeraConfig
    choices = HeraContext
    build_options = frozenset({"grader", "embedder"})
    figure = figure
    variants = FrozenMap(
        {
            FULL: Variant(title="full"),
            "no-library": Variant(title="w/o library", config={"library": False}),
            "no-rope": Variant(title="w/o RoPE", config={"rope": False}),
            "no-mutation": Variant(title="w/o mutation", config={"mutation": False}),
            "no-gate": Variant(title="no gate", gate="off"),
            RANDOM: Variant(title="random edits", random=True),
        }
    )
    random_edits = True
    learns_insights = True
    draw_run = staticmethod(draw_run)
    draw_learning = staticmethod(draw_learning)
    paper = (
        "Li and Ramakrishnan, *Experience as a Compass: Multi-agent RAG with Evolving Orchestration and Agent "
        "Prompts*, arXiv 2604.00901"
    )
    departures = "D1-D25"

    @staticmethod
    def estimate_calls(config: HeraConfig, team: Team, batch: int, added_agents: float) -> CallEstimate:
        """A plan and a run per member of the group; insights, prompts of failing agents and mutations."""
        run = count_turn_calls(team)
        roped = min(config.prompts.agents, batch / 2) if config.rope else 0
        axes = len(config.prompts.axes)
        planned = not has_one_plan(team)
        mutated = batch / 3 if config.mutation and planned else 0
        insights, planning = (batch * config.library, 1 + config.library) if planned else (0, 0)
        learning = {
            "agent": roped * (axes + 1) * run + mutated * 2 * run,
            "meta": roped * (axes + 2) + mutated * 2 + insights,
        }
        return CallEstimate({"agent": run, "meta": planning}, samples=config.group, learning=learning)

    @property
    def prompts(self) -> Prompts:
        """Prompts of the orchestrator."""
        return load_prompts("evolvers", METHOD)

    def serve(self, start: RunStart, factory: CtxFactory) -> Graph:
        """Build the figure for users, around the default chain; every agent of the pool may work in it."""
        return self.figure.serve(start, factory, agent_nodes=dict.fromkeys(start.initial_team.agents_by_id, "rollout"))

    def seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> Team:
        """The pool around the default chain, without insights; its retriever and calculator hold the tools."""
        return make_initial_team(self.prompts, tools=tools)

    def check_learned(self, team: Team, embedder: str) -> None:
        """Read everything that the team has learned; raises as `Method.check_learned`."""
        get_library(team), get_buffers(team), get_mutated(team), list_pool(team), has_one_plan(team)

    async def answer(self, team: Team, question: Question, ctx: Ctx[HeraConfig]) -> Trajectory:
        """Characterise, retrieve, plan once at the temperature of evaluations, execute.

        Raises:
            ModelError: the question could not be characterised or planned for.
            BudgetError: the run must stop.
        """
        final = await run_graph(self.compiled, HeraState, ctx.with_question(team, question), aim="answer")
        return final.trajectories[0]

    @property
    def samples(self) -> int:
        """G, the size of a group."""
        return self.config.group

    async def explore(self, team: Team, question: Question, ctx: Ctx[HeraConfig]) -> Sequence[Trajectory]:
        """Run a group: one profile and one retrieval, then G plans and teams side by side.

        Each member's notes hold `profile` (where there are insights), `insights` (those in its prompt), `topology`,
        `repairs` and `default`. Where a model fails to plan, only that member ends
        as an error.
        """
        final = await run_graph(self.compiled, HeraState, ctx.with_question(team, question), aim="explore")
        return final.trajectories

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[HeraConfig]) -> EvolveResult:
        """Learn from the graded groups of a batch in a pass from rank to keep; `note_learning` says what is noted."""
        given: dict[str, Any] = {"scope": ctx.scope, "ran": team, "workflow": team, "trajectories": runs}
        final = await run_graph(self.compiled, HeraState, ctx, aim="learn", **given)
        return EvolveResult(workflow=final.workflow, applied=final.applied, notes=note_learning(final, len(runs)))

    def keep_memory(self, kept: Team, rejected: Team) -> Team:
        """The kept prompts and pool with the candidate's experience, failures and mutated questions."""
        learned = {name: value for name, value in rejected.memory.items() if name in LEARNED}
        return kept.with_memory(**learned) if learned else kept

    def note_removals(self, smaller: Team, whole: Team) -> Team:
        """The smaller pool, which is planned with as before: steps of agents that were taken out are left out (D23)."""
        return note_removed(smaller, whole)

    def list_plans(self, team: Team, runs: Sequence[Trajectory]) -> Sequence[Topology]:
        """The plans that are most like those of runs with high scores (D25)."""
        if has_one_plan(team):
            return ()
        scored = [(topology, get_score(run) or 0.0) for run in runs if (topology := get_topology(run))]
        return choose_typical_plans(scored)

    def list_shorter_plans(self, plan: Topology, team: Team) -> Sequence[Topology]:
        """The plans that have a step less (D25)."""
        return list_shorter_plans(plan, team)


build, graph = make_build(Hera), make_server(Hera)
