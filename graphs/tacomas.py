"""TacoMAS as a state machine (Xu et al., arXiv 2605.09539, Alg. 1): a team that changes while it works on a question.

    START -> init_graph -> round (the team) -> judge -> [confirmed, or t = R - 1] END
                            ^                   |  |
                            |                   |  +-> [(t + 1) mod K = 0, or slow_again] birth_death -> [stop] END
                            |                   v                                             |
                            +---------------- refine <----------------------------------------+

A judge or meta-model that fails ends the run with what was answered until then, from whichever of the three nodes.
`refine` is the fast loop F^C, `birth_death` the slow loop F^T. The state knows a question and never a task. Equations,
prompts and budgets are in `selfwire.evolvers.tacomas`, where the departures D1 to D25 stand too.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import wraps

from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.chat import Prompts, load_prompts
from selfwire.core.errors import ModelError, format_error, get_error_cost
from selfwire.core.protocols import AgentRunner, Tool
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.text import excerpt
from selfwire.core.trajectory import Message, Step, Trajectory
from selfwire.core.usage import ZERO_USAGE, Objective, Usage, sum_usages
from selfwire.core.values import FrozenMap
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.fast import (
    append_notes,
    drop_notes,
    give_notes,
    inherit_weights,
    make_uniform_weights,
    refine_agents,
    update_weights,
    weigh_messages,
)
from selfwire.evolvers.tacomas.initial_team import METHOD, make_initial_team
from selfwire.evolvers.tacomas.judge import (
    Contribution,
    Judgement,
    RubricItem,
    assess_contributions,
    draft_checklist,
    judge_answer,
)
from selfwire.evolvers.tacomas.lessons import MEMORY, get_lessons, with_lessons
from selfwire.evolvers.tacomas.meta import propose_slow_update
from selfwire.evolvers.tacomas.pictures import END_REASONS, draw_run, format_notes
from selfwire.evolvers.tacomas.rounds import (
    Figures,
    RunSoFar,
    StopReason,
    TacomasRound,
    begin_round,
    compute_figures,
    count_agreement,
    find_best_round,
    find_stop_reason,
    is_slow,
    with_judgement,
    with_slow_update,
)
from selfwire.evolvers.tacomas.work import name_nodes
from selfwire.graphs.build import make_build
from selfwire.graphs.machine import (
    END,
    START,
    Ctx,
    MethodGraph,
    RunContext,
    State,
    Update,
    add_usage,
    make_state_error,
    run_graph,
)
from selfwire.graphs.method import FULL, LOOP, CallEstimate, Calls, EvolveResult, Method, Variant, count_turn_calls
from selfwire.graphs.serve import make_server
from selfwire.graphs.team import TeamContext, get_pending_messages, run_team


class TacomasContext(RunContext):
    """Choices of a user for one run; each field's description says what it does."""

    rounds: int | None = Field(default=None, ge=1, le=100, description="Most rounds; empty for the graph's own.")


class TacomasState(State):
    """State of a question, beside the channels of every state; nothing that a reference could be part of.

    Attributes:
        answer: of the best round so far; None if none has one.
        error: why there is no answer; None if there is.
        tools: what the team held at first, and so what newborns may hold.
        weights: w_v by agent.
        figures: what the run came to; set when it ends.
        oracle: whether labels were used; always False.
    """

    error: str | None = None
    workflow: Team
    tools: tuple[str, ...] = ()
    checklist: tuple[RubricItem, ...] = ()
    weights: Mapping[str, float] = FrozenMap()
    notes: Mapping[str, tuple[str, ...]] = FrozenMap()
    carried: tuple[Message, ...] = ()
    rounds: tuple[TacomasRound, ...] = ()
    done: Trajectory | None = None
    best: Trajectory | None = None
    figures: Figures | None = None
    oracle: bool = False

    @property
    def so_far(self) -> RunSoFar:
        """Rounds, the last one's work, and notes; known after the first round."""
        if self.done is None or not self.rounds:
            raise make_state_error("rounds" if self.done else "done", "there is no round to work on")
        return RunSoFar(self.rounds, self.done, self.notes)


YOURSELF, BEST = "yourself, in the round before", "the team, its best answer so far"
"""Senders of what an agent is reminded of."""
RECALLED = 4_000
"""Most characters of each."""

Coach = Callable[[TacomasState, Ctx[TacomasConfig]], Awaitable[Update]]


def end_on_failure(step: Coach) -> Coach:
    """Make a step that coaches end the run, where its model fails, with what was answered until then."""

    @wraps(step)
    async def guarded(state: TacomasState, ctx: Ctx[TacomasConfig]) -> Update:
        try:
            return await step(state, ctx)
        except ModelError as error:
            cost, (*before, last) = get_error_cost(error), state.rounds
            last = last.replace(fault=format_error(error), usage=last.usage + cost)
            return finish_round(state, ctx, cost, rounds=(*before, last), best=state.best)

    return guarded


async def init_graph(state: TacomasState, ctx: Ctx[TacomasConfig]) -> Update:
    """G_0, uniform weights, and the checklist; capability memory of the question before is gone."""
    question, team, scope = await ctx.begin(state)
    team = ctx.edit(team)
    items, usage = await draft_checklist(question, ctx.critic, scope=scope)
    return state.restart(
        question,
        scope,
        workflow=team,
        tools=sorted(list_offered_tools(team, ctx)),
        checklist=items,
        weights=make_uniform_weights(agent.id for agent in team.members),
        usage=usage,
    )


async def round(state: TacomasState, ctx: Ctx[TacomasConfig]) -> Update:
    """Run the team once, with refinements in its agents' memory and inboxes weighed (D1).

    After a slow update the team is another than the drawn one.
    """
    team, at = state.workflow, ctx.scope.at(visit=len(state.rounds))
    act, agents = weigh_inboxes(team, state.weights, recall_work(state), ctx), give_notes(team, state.notes)
    run = TeamContext.of(team, state.get_question(), at, act, agents=agents)
    done = await run_team(team.topology, run, carried=state.carried)
    return state.update(
        done=done,
        carried=get_pending_messages(team.topology, done, state.carried),
        rounds=(*state.rounds, begin_round(state.rounds, done, team.topology, state.weights)),
        usage=state.usage + done.usage,
    )


async def judge(state: TacomasState, ctx: Ctx[TacomasConfig]) -> Update:
    """s_t and c_v, and which round is the best so far."""
    config, done, (*before, last) = ctx.options, state.so_far.done, state.rounds
    at, roles = ctx.scope.at(visit=last.number), [(agent.id, agent.role) for agent in state.workflow.members]
    found, scores, fault, usage = Judgement(), tuple[Contribution, ...](), None, Usage()
    try:
        if done.answer is not None:
            found = await judge_answer(done, state.checklist, ctx.critic, threshold=config.threshold, scope=at)
        judged = with_judgement(last, found, (), fault=None, cost=Usage())
        if find_end((*before, judged), state, ctx) is None:  # else no round would use them (D12)
            scores, usage = await assess_contributions(done, roles, ctx.critic, each=config.fast.judge_each, scope=at)
    except ModelError as error:
        fault, usage = format_error(error), get_error_cost(error)
    rounds = (*before, with_judgement(last, found, scores, fault=fault, cost=usage))
    best = done if find_best_round(rounds) == last.number else state.best
    return finish_round(state, ctx, found.usage + usage, rounds=rounds, best=best)


@end_on_failure
async def refine(state: TacomasState, ctx: Ctx[TacomasConfig]) -> Update:
    """F^C: replicator weights, and refinements for those who need one; nothing where capabilities are frozen."""
    config, (*before, last) = ctx.options, state.rounds
    if not config.capability:
        return {}
    scored = {found.agent: found.score for found in last.contributions}
    weights = update_weights(state.weights, scored, rate=config.fast.rate, floor=config.fast.floor)
    at = ctx.scope.at(visit=last.number)
    tools = ctx.get_tools(state.workflow)
    coached = await refine_agents(state.workflow, state.so_far, ctx.critic, tools=tools, config=config.fast, scope=at)
    refused = (*last.refused, *coached.refused)
    last = last.replace(weights=weights, notes=coached.notes, refused=refused, usage=last.usage + coached.usage)
    return state.update(
        weights=weights,
        notes=append_notes(
            drop_notes(state.notes, coached.dropped), coached.notes, state.weights, keep=config.fast.kept
        ),
        rounds=(*before, last),
        usage=add_usage(state.usage, coached.usage, ctx.budget),
    )


@end_on_failure
async def birth_death(state: TacomasState, ctx: Ctx[TacomasConfig]) -> Update:
    """F^T: the meta-model's structural delta within budgets and caps."""
    known, (*before, last) = ctx.get_tools(state.workflow), state.rounds
    at, tools = ctx.scope.at(visit=last.number), {name: known[name] for name in state.tools}
    delta = await propose_slow_update(
        state.workflow, state.so_far, ctx.critic, tools=tools, config=ctx.options, scope=at
    )
    arriving = [m for m in state.carried if m.target in delta.workflow.topology.agents]
    lost = [m for m in state.carried if m not in arriving]
    living = [agent.id for agent in delta.workflow.members]
    changed = state.update(
        workflow=delta.workflow,
        weights=inherit_weights(state.weights, living),
        notes={agent: kept for agent, kept in state.notes.items() if agent in living},
        carried=arriving,
    )
    rounds = (*before, with_slow_update(last, delta, lost))
    return changed | finish_round(state, ctx, delta.usage, rounds=rounds, best=state.best)


def finish_round(
    state: TacomasState,
    ctx: Ctx[TacomasConfig],
    more: Usage,
    *,
    rounds: tuple[TacomasRound, ...],
    best: Trajectory | None,
) -> Update:
    """The rounds, the answer so far, and the figures if this was the run's last step."""
    usage, stop = add_usage(state.usage, more, ctx.budget), find_end(rounds, state, ctx)
    error = None if best else f"no round ended with an answer; the last one: {rounds[-1].error}"
    update = state.update(rounds=rounds, best=best, usage=usage, answer=best.answer if best else None, error=error)
    if stop is not None:
        update |= state.update(figures=compute_figures(rounds, stop=stop, calls=usage.calls))
    return update


def find_end(rounds: Sequence[TacomasRound], state: TacomasState, ctx: Ctx[TacomasConfig]) -> StopReason | None:
    """Why the run ends after these rounds; None if it goes on. Another round costs what the team's last one did."""
    price = Objective.parse(ctx.options.objective).compute_price(ZERO_USAGE, state.so_far.done.usage)
    return find_stop_reason(rounds, limit=ctx.options.rounds, price=price)


def list_offered_tools(team: Team, ctx: Ctx[TacomasConfig]) -> dict[str, Tool]:
    """Tools that newborns may hold: those of the initial team's agents, of which some may have no place in it."""
    held = {tool for agent in team.agents for tool in agent.tools}
    return {name: tool for name, tool in sorted(ctx.get_tools(team).items()) if name in held}


def recall_work(state: TacomasState) -> dict[str, tuple[Message, ...]]:
    """Messages that remind agents of what they wrote in the round before, and the sink of the best answer (D23)."""
    if state.done is None:
        return {}
    sink, best = state.workflow.agent_at(state.workflow.topology.sink).id, state.best
    written = {step.agent: step.output for step in state.done.steps if step.output.strip() and step.error is None}

    def remind(agent: str, source: str, text: str) -> Message:
        return Message(source=source, target=agent, text=excerpt(text, RECALLED, state.get_question().input))

    recalled: dict[str, tuple[Message, ...]] = {
        agent: (remind(agent, YOURSELF, text),) for agent, text in written.items()
    }
    if best is not None and best.answer and best.answer.strip() != written.get(sink, "").strip():
        recalled[sink] = (*recalled.get(sink, ()), remind(sink, BEST, best.answer))
    return recalled


def weigh_inboxes(
    team: Team, weights: Mapping[str, float], recalled: Mapping[str, tuple[Message, ...]], ctx: Ctx[TacomasConfig]
) -> AgentRunner:
    """Make the runner of a team's agents, who read the messages of influential senders first and at greater length.

    Args:
        recalled: what each agent reads after them.
    """
    act, names = ctx.make_runner(team), name_nodes(team)
    by_node = {node: weights.get(agent, 0.0) for node, agent in team.topology.agents.items()}

    async def act_on_weighed(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        read = weigh_messages(inbox, by_node, ctx.options.fast.inbox_length, about=question.input)
        named = [message.replace(source=names.get(message.source, message.source)) for message in read]
        return await act(agent, question, [*named, *recalled.get(agent.id, ())], scope=scope)

    return act_on_weighed


def rewire_or_refine(state: TacomasState, ctx: Ctx[TacomasConfig]) -> str:
    """`birth_death` every K rounds, and when the slow update before asked for it.

    END after a confirmed answer, a failure or the last round, and where another would not pay for its calls.
    """
    config = ctx.options
    slow = config.topology and is_slow(state.rounds, interval=config.interval, threshold=config.threshold)
    return "birth_death" if slow and not state.figures else refine_or_end(state, ctx)


def refine_or_end(state: TacomasState, ctx: Ctx[TacomasConfig]) -> str:
    """END where the meta-model stopped or failed, so that no agent is coached in vain (D22)."""
    return END if state.figures else "refine"


def round_or_end(state: TacomasState, ctx: Ctx[TacomasConfig]) -> str:
    """END where the coach failed."""
    return END if state.figures else "round"


figure = MethodGraph(TacomasState, first="init_graph", team="round")
figure.add_edge(START, "init_graph")
figure.add_sequence([init_graph, round, judge])
figure.add_node(refine)
figure.add_node(birth_death)
figure.add_conditional_edges("judge", rewire_or_refine, ["birth_death", "refine", END])
figure.add_conditional_edges("birth_death", refine_or_end, ["refine", END])
figure.add_conditional_edges("refine", round_or_end, ["round", END])
USUAL_ROUNDS = 3
"""Rounds of a question that may take ten, offline: between 1 and 2 on archive, 4 or more on plancraft."""


class Tacomas(Method[TacomasConfig]):
    """While it works on a question, refines capabilities every round and rewires the team every second one."""

    name = METHOD
    summary = (
        "while it works on one question, "
        "refines capabilities every round and rewires the team every second one, without labels"
    )
    config_type = TacomasConfig
    choices = TacomasContext
    build_options = frozenset({"judge"})
    variants = FrozenMap(
        {
            FULL: Variant(title="full"),
            "no-capability": Variant(title="topology only", config={"capability": False}),
            "no-weights": Variant(title="w/o the weights of Eq. 2", config={"fast": {"rate": 0}}),
            "no-refinements": Variant(title="w/o refinements", config={"fast": {"refines": False}}),
            "no-feedback": Variant(title="w/o the slow loop's words to agents", config={"slow": {"feedback": False}}),
            "no-topology": Variant(title="capability only", config={"topology": False}),
            "one-scale": Variant(title="K = 1", config={"interval": 1}),
            "random-births": Variant(title="random births and deaths", config={"slow": {"drawn": True}}),
            "no-budget": Variant(title="no edit budget", config={"slow": {"budgeted": False}}),
            "fixed": Variant(title="fixed team", config={"capability": False, "topology": False}),
        }
    )
    figure = figure
    evolves = False
    rounds = "rounds"
    end_reasons = FrozenMap(END_REASONS)
    format_notes = staticmethod(format_notes)
    draw_run = staticmethod(draw_run)
    paper = (
        "Xu et al., *TacoMAS: Test-Time Co-Evolution of Topology and Capability in LLM-based Multi-Agent Systems*, "
        "arXiv 2605.09539"
    )
    departures = "D1-D25"

    @staticmethod
    def estimate_calls(config: TacomasConfig, team: Team, batch: int, added_agents: float) -> CallEstimate:
        """Calls of the first team's rounds, each judged and coached; at most, every slow update only adds agents."""
        asks = len(team.topology.nodes) if config.fast.judge_each else 1  # of contributions and of the coach, per round
        coached = asks * (config.capability and config.fast.refines)
        meta = coached + config.topology / config.interval

        def count_calls(rounds: int) -> Calls:
            judge = 1.2 * rounds + (rounds - 1) * asks
            return {"agent": rounds * count_turn_calls(team), "judge": judge, "meta": 1 + (rounds - 1) * meta}

        usual, most = count_calls(min(config.rounds, USUAL_ROUNDS)), count_calls(config.rounds)
        room = max(config.topology * (config.slow.nodes - len(team.topology.nodes)), 0)
        births = config.slow.pairs if config.slow.budgeted else room
        turns = sum(min(room, births * (number // config.interval)) for number in range(config.rounds))
        calls = LOOP if any(agent.tools for agent in team.agents) else 1  # of a newborn in a round
        return CallEstimate(usual, gate_share=0, tokens=750, most={**most, "agent": most["agent"] + calls * turns})

    @property
    def prompts(self) -> Prompts:
        """Prompts of the initial team, of the judge, of the coach and of the meta-model."""
        return load_prompts("evolvers", METHOD)

    def seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> Team:
        """The initial team of five."""
        return make_initial_team(self.prompts, tools=tools, config=self.config)

    def check_learned(self, team: Team, embedder: str) -> None:
        """Read all lessons of the team; raises as `Method.check_learned`."""
        get_lessons(team)

    async def answer(self, team: Team, question: Question, ctx: Ctx[TacomasConfig]) -> Trajectory:
        """Run up to R rounds on one question, starting from the team, which itself does not change.

        Returns:
            The best round's steps and answer; the cost of the other rounds and of the coaching is its overhead, and
            `notes` holds `rounds`, `figures`, those that evaluations average as `measures`, the `topology` that ran
            last, the `checklist`, the `threshold` of its score, the last `workflow`'s fingerprint, and `oracle`.
            A judge or meta-model that fails ends the run with the best answer until then; it is an error where
            there is none.

        Raises:
            BudgetError, OutageError: the run must stop; `partial_result` holds the best round until then.
        """
        options = ctx.options
        try:
            final = await run_graph(
                self.compiled,
                TacomasState,
                ctx.with_question(team, question),
                so_far=lambda state: build_partial_result(state, team, options),
            )
        except ModelError as error:
            return Trajectory(
                question=question,
                workflow=team.fingerprint,
                error=format_error(error),
                sample=ctx.scope.sample,
                overhead=get_error_cost(error),
            )
        return build_result(final, team, options)

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[TacomasConfig]) -> EvolveResult:
        """Structural lessons, if the config keeps any; the team that questions start with does not change.

        Its notes say how often the judge agreed with the environment.
        """
        notes = count_agreement(runs)
        if not ctx.options.lessons:
            return EvolveResult(workflow=team, notes=notes)
        taught = with_lessons(team, runs, tools=tuple(list_offered_tools(team, ctx)))
        return EvolveResult(workflow=team if taught == team else taught.with_lineage(team, ()), notes=notes)

    def keep_memory(self, kept: Team, rejected: Team) -> Team:
        """The kept team with the rejected one's lessons, which hold for either team."""
        return kept.with_memory(**{MEMORY: rejected.memory[MEMORY]}) if MEMORY in rejected.memory else kept


def build_partial_result(state: TacomasState, team: Team, options: TacomasConfig) -> Trajectory | None:
    """The best round of a run that a budget or an outage stopped; None where no round has an answer."""
    best = find_best_round(state.rounds)
    if best is None:
        return None
    figures = compute_figures(state.rounds, stop="stopped", calls=state.usage.calls)
    chosen = state.done if best == state.rounds[-1].number else state.best
    return build_result(state.after(state.update(best=chosen, error=None, figures=figures)), team, options)


def build_result(final: TacomasState, team: Team, options: TacomasConfig) -> Trajectory:
    """The best round as the run's trajectory, with notes on all rounds."""
    best, channels = final.best or final.so_far.done, final.channels
    notes = {
        "rounds": channels["rounds"],
        "figures": channels["figures"],
        "measures": Figures.model_validate(channels["figures"]).measures,
        "topology": channels["figures"]["topology"],
        "checklist": channels["checklist"],
        "threshold": options.threshold,
        "workflow": final.workflow.fingerprint,
        "oracle": final.oracle,
    }
    overhead = final.usage.subtract(sum_usages(step.usage for step in best.steps))
    return best.replace(workflow=team.fingerprint, overhead=overhead, notes=notes, error=final.error)


build, graph = make_build(Tacomas), make_server(Tacomas)
