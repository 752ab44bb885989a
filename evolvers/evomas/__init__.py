"""EvoMAS: a trained router builds a new workflow of layers at every stage of a task.

Xu et al., "EvoMAS: Learning Execution-Time Workflows for Multi-Agent Systems". In the order of the paper:

    s_t         objective, plan, artifacts, verdict, history:     state.TaskState               (Sec. 3.1, B.3)
                compact rows for the router, full text for agents
    plan        a model's, made valid by a pure function          planner.make_plan             (B.1, C.1)
    e_t         verdict, confidence, feedback of a binary reward  evaluator.assess_outcome      (Eq. 20, B.2)
    mu          the next state, deterministic                     state.compute_next_state      (Eq. 7, B.3)
    a           written with the last judgement, or by a call     evaluator.compose_answer      (Alg. 1)
    P           pool-4 and pool-7                                 pool.make_initial_team    (C.4, Table 4)
    G_t         the drawn layers as a team                        layers.make_layered_topology  (Eq. 8, 9, D.3)
    pi_wf       layers of agents, drawn by the trained router     evolvers.router               (Sec. 3.2, 3.3)

Departures of the trained part are D1 to D10, D22 and D28 in `evolvers.router`. Departures of the task state and
the graph (a test is named after each):
    D9  In a run the evaluator's rewards decide what is done and what is tried again, with process reward and without.
    D11 Early-exit is masked until a subtask is completed, as near a uniform p nine of ten first stages would end a run.
        In a plan of one subtask it may end the layers behind the first one; the run ends with it where the subtask is
        done.
    D12 The planner's reply is bounded: it completes nothing, revives nothing that has failed and loses no artifact.
    D13 A reward of 0 is `refine` or `fail` as the evaluator says. `fail`, and a third `refine`, is FAILED and asks for
        another plan; the paper leaves open when a subtask has failed.
    D14 Invalid replies have safe defaults: the plan goes on, the subtask is sent back, the ensemble takes what most
        solutions say. A stage in which nobody answers is sent back without a judgement.
    D15 The evaluator also writes the answer, in the form that the task asks for, where the run may end with what it
        judges. Where the last judgement holds none, or the evaluator has not read all tries, a closing call writes it
        from what passed and the attempts at what did not; where the model of planner or evaluator failed or the task's
        calls are used up, the best outcome is the answer. The paper extracts it from the state, where it is a stage's
        report.
    D16 The evaluator's tools belong to an extra agent that looks claims up before the judgement; off by default.
    D17 Early-exit alone in a first layer runs nothing, so nothing is planned or judged and the run ends.
    D18 Without a task state the task is the only subtask of every stage, and stages end as they do otherwise.
    D19 An ensemble of one solution, or of equal ones, chooses without a call. In both fixed workflows it never chooses:
        one agent stands before it, and hands over one text.
    D20 Agents are drawn only for what they hold: searchers that have no tool are masked, and so are self-refine and
        the ensemble in a first layer while there is no solution. Nobody is told of a masked agent. Tools that compute
        look nothing up: where there are no others, io holds them, and the searchers none.
    D21 Agents name their sources themselves. Code adds a list only where tools gave sources and the answer has none,
        and a tool that computes gives none;
        the paper has every I/O answer say that it comes from the model's own knowledge, even one quoted from the task.
    D23 Prompts of the pool are ours, and an agent's answer is its text, not a call of a final_answer tool. They
        name what an agent of their kind does, and no other step that a benchmark of ours needs.
    D24 The hint for the next stage is the planner's, which knows the plan; in the paper the updater states it.
    D25 The state is bounded: 12 subtasks, 12 stages of history, 6,000 characters of an artifact.
    D26 Agents read plan and results, and their own part's last try with why it was sent back. Verdicts, history and why
        another part was given up are for planner and router; a summary stands only where results are cut.
    D27 Who would read nothing but its own answer of the layer before, and has no tool that finds anything, hands it on
        without a call.
"""
