"""TacoMAS: co-evolution of topology and capability at test time, on two time scales.

Xu et al., "Test-Time Co-Evolution of Topology and Capability in LLM-based Multi-Agent Systems". In the order
of the paper:

    initial    G_0 of five roles; the checklist from the question alone    initial_team, judge.draft_checklist (5.1)
    fast       Phi_{t+1} = F^C(Phi_t; T_t, xi_t), every round              fast                   (Eq. 1, Sec. 3.3)
    c_v        meta-judge: rubric 0, 0.3, 0.5, 0.7, 1, evidence precheck   judge.assess_contributions (D.3, Listing 7)
    refine     errors, a plan, one capability update per agent in need     fast.refine_agents     (Sec. 3.3, D.2)
    Eq. 2      w_v proportional to w_v * exp(eta * (c_v - mean c))         fast.update_weights    (Sec. 3.3)
    s_t        share of the checklist that passes                          judge.checklist_score  (Alg. 1, Sec. 5.1)
    slow       T_{t+K} = F^T(T_t; Phi, xi), every K rounds while s < tau   meta.propose_slow_update (Eq. 1, Sec. 3.4)
    Eq. 4      |dV| <= B_V, |dE| <= B_E, |V| <= 20                         slow.enforce_budgets   (Sec. 3.4)
    stop       s_t >= tau, or t = R - 1, or the meta-model says so         rounds.find_stop_reason (Sec. 3.4; D24)
    m_t        mean contribution per round and its changes                 rounds.compute_figures (App. C.3)

Beyond the paper, off by default:
    lessons    effects of structural changes on s, kept across questions          lessons

Departures (a test is named after each):
    D1  Weights act: an agent's messages come in the order of their senders' weights, and share what it reads by
        weight. The paper only analyses them.
    D2  Weights keep a floor: w <- 0.9 w + 0.1 / n. Without it ten rounds silence the weakest for good; with it the
        contribution that the weights lead one to expect may fall in an update, which Prop. 1 rules out.
    D3  No labels: s_t and all that follows from it come from a judge that knows question, answer and trace only.
    D4  The answer is that of the best round by judge score, ties to the latest; Alg. 1 returns the last.
    D5  A score of tau or more ends the run only if a second judgement, with the items in reverse order, reaches
        tau too; the round's score is the lower of the two, so that no doubtful round beats a confirmed one. Where no
        valid second verdict comes back the run goes on, and the team stays as it is (Alg. 1, line 9).
    D6  An agent whose model failed is not scored, and its weight grows as the mean does.
    D7  A newborn without edges is connected entry -> newborn -> sink within the edge budget; where the budget is
        spent its birth is undone, as it would never act.
    D8  A stop ends the run at once; proposals beside it are recorded and not made.
    D9  A round without an answer has no score, which does not count as 0, and the run goes on.
    D10 Messages to a dead agent are recorded as lost; every other message arrives, maybe rounds later.
    D11 A change that would leave the sink out of reach waits for the rest of the update; where that does not help, it
        is refused. A birth into a full team and an edge to an agent that is not there yet wait too.
    D12 After the last round nobody is scored or coached, and the team stays: no round would use it.
    D13 One call scores all agents, and one coaches those that need it: those with a contribution below 0.7, and the
        sink where the answer fails an item. The paper asks for every agent by itself; `judge_each` does so.
    D14 Who scores contributions, coaches or rewires reads a task of more than 12,000 characters cut to what matters for
        the work, in whole sentences; team and judge read all of it.
    D15 Every question starts with the same five agents, the template of Sec. 5.1, and a newborn's role is free. By
        Sec. 3.4 and Alg. 1 the meta-model picks roles for each question from a fixed pool, which is printed nowhere.
    D16 The template's edges are ours, as the paper shows them in a picture only: planner -> {searcher, calculator} ->
        verifier -> reflector. Nobody leads: the work goes through planner and verifier.
    D17 The running task profile is the checklist: the items that the last answer fails are what is missing.
    D18 No graph_diff is asked for: code records what was made. An edge's ends are source and target, and feedback is a
        list, as strict schemas allow no open objects.
    D19 Coach and slow loop read the work of the last round, and of earlier ones scores and notes; the slow loop also
        all contributions, and the meta-judge's remarks of K rounds.
    D20 Edges that a replacement inherits, or that go with the dead, do not count in |dE|.
    D21 Who fails the evidence precheck contributes at most 0.3, whatever the meta-judge says.
    D22 The slow loop comes before the coach, who is not asked before a stop or about the dead; Alg. 1 coaches first.
        Items of the checklist that the task allows no answer to pass do not count, at most half of them.
    D23 After the messages an agent reads its own output of the round before, and the sink the best answer so far.
    D24 A run with a price also ends where the gain that another round lets one expect is below the price of the team's
        calls in the last round; nobody is scored or coached then. Without a price, as usual, no run ends so.
    D25 An agent reads the coach's faults and plan for it, not its score and the meta-judge's reason, which coach and
        slow loop read. By Sec. 3.3 both are written back to it.
"""
