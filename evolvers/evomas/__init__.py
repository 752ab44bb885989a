"""EvoMAS: a trained router builds a workflow of layers anew at every stage of a task.

Xu et al., "EvoMAS: Learning Execution-Time Workflows for Multi-Agent Systems". In the order of the paper:

    s_t         objective, plan, artifacts, verdict, history; compact rows and    state.TaskState       (Sec. 3.1, B.3)
                full text of it
    plan        a model's, made valid by a pure function                      planner.make_plan     (B.1, C.1)
    e_t         verdict, confidence, feedback from a binary reward            evaluator.evaluate    (Eq. 20, B.2)
    mu          the next state, deterministic                                 updater.update_state  (Eq. 7, B.3)
    P           pool-4 and pool-7                                             pool.make_initial_workflow (C.4, Table 4)
    G_t         layers of agents of the pool, each layer joined to the next    decisions.LayeredWorkflow (Eq. 1, 8, 9)
    pi_wf       a choice of layers from the rows of the task state             plans.Chooser         (Eq. 3, 13)
    e_i         embedding of an agent's role, capabilities and tools           plans.agent_text      (Eq. 21)
    c^(l)       mean embedding of the agents of earlier layers, 0 at l = 1     head.RoutingHead      (Eq. 22)
    X~          [X; c], the rows that ask                                      head.RoutingHead      (Eq. 23)
    Q, K, V     X~ W_Q, E W_K, E W_V                                           head.RoutingHead      (Eq. 24)
    h           mean over rows of Attn(Q, K, V)                                head.RoutingHead      (Eq. 25, 26)
    alpha, p    cos(h, e_i); softmax(alpha / lambda)                           head.RoutingHead      (Eq. 10, 11)
    draw        without replacement, until the mass drawn reaches rho          sampling.draw         (Eq. 12, 29)
    log P(i)    sum_r log( p_{i_r} / (1 - sum_{q<r} p_{i_q}) )                 sampling              (Eq. 28)
    log P(G_t)  sum over layers                                                decisions.LayeredWorkflow (Eq. 14)
    grad J      sum_t U grad log P(G_t | s_t)                                  reinforce.Learner     (Eq. 15, 16)

Departures of the trained part (a test is named after each):
    D1  One row per field of the task state, each embedded whole; the paper embeds tokens. Where `state` is tokens,
        every word is embedded by itself, as an embedder gives one vector per text.
    D2  Layer normalisation, without weights of its own, on the rows and on the agents, and W_Q = W_K = W_V = I at
        the start: with token rows and Xavier weights the untrained head hardly sees the state.
    D3  log P is logit_i - logsumexp(logits not yet drawn): 1 - sum p cancels to nothing where p is peaked.
    D4  At most `width` agents per layer; a uniform p over 100 agents would draw 50.
    D5  The mass counts as reached at rho - 1e-9, so that sums like 0.3 + 0.2 do not draw one agent too many.
    D6  Masked agents have no probability, and that of the others is renormalised before rho is applied.
    D7  Leave-one-out baseline, entropy bonus, clipped gradients, and batches whose returns are all equal are
        skipped; the preset `paper` switches these off.
    D8  An episode that an infrastructure error ended has no utility and teaches nothing; it is no zero.
    D9  With process reward the return from stage t is U + (w / T) * sum of the evaluator's rewards from t on. In a run
        these rewards decide what is done and what is tried again, with the switch and without; nothing else asks them.
    D10 Weights trained for one pool serve another one, as agents enter by their texts only: asked for by name.

Departures of the task state and the machine:
    D11 Early-exit is masked until a subtask is completed; near a uniform p, nine of ten first stages would end a run.
    D12 The planner's reply is bounded: it completes nothing, revives nothing that has failed and loses no artifact.
    D13 A reward of 0 is `refine` or `fail` as the evaluator says. `fail`, and a third `refine`, is FAILED and asks for
        another plan; the paper leaves open when a subtask has failed.
    D14 Replies that are none have safe defaults: the plan goes on, the subtask is sent back, the ensemble takes what
        most solutions say. A stage in which nobody answers is sent back unjudged.
    D15 The answer is the artifact of the last subtask that succeeded; where none did, one synthesis of the attempts.
    D16 The evaluator's tools are an agent of its own that looks claims up before it judges; off by default.
    D17 Early-exit alone in a first layer runs nothing, so that nobody plans or judges on it and the run ends.
    D18 Without a task state the task is the only subtask of every stage, and stages end as they do otherwise.
    D19 An ensemble of one solution chooses without a call.
"""
