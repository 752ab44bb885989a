"""HiVA: semantic-topological evolution with knowledge-aware bandit routing.

Tang et al., "HiVA: Self-organized Hierarchical Variable Agent via Goal-driven Semantic-Topological
Evolution". Whatever asks a model raises BudgetError where the run must stop. In the order of the paper:

    update     s' = s + ds, ds = (f_P, f_G) of the textual gradients     semantics, structure   (Sec. 3.1, J.1)
    loss       L_t = L(E_env(y)), its gradient at v_a from LLM(y, L_t)   gradients.compute_loss (Sec. 3.2, Alg. 1)
    chain      dL/dv_i = LLM({dL/dv_j of executed j}, y_i)               gradients.propagate_gradients (Alg. 1, J.1)
    score      P_j = theta_j * exp(-lambda * Dist(A_j, I)) * zeta^eta    kabb.score             (Sec. 3.4)
    zeta       zeta(S) = mean of C_syn over ordered pairs of S           memory.team_synergy    (Sec. 3.4)
    distance   Dist = log(1 + d_I) * sum_k omega_k * Psi_k               knowledge.distance     (Sec. 3.4, D.1)
    belief     a' = 1 + gamma^dt * (a - 1) + sum of [r + delta * KM]     memory.update_belief   (Sec. 3.4, J.2)
               b' = 1 + gamma^dt * (b - 1) + sum of [1 - r + delta * (1 - KM)]
    forward    x_j = LLM(x_i, y_i, p_j) for the k best successors        forward, kabb          (Alg. 2)
    synergy    C_ij' = C_ij + gamma' * a_ij / (a_ij + b_ij) * R_ij       memory.update_synergy  (Sec. 3.5, J.3)
    f_P        prompts from gradients, weights 0.7 (role), 0.3 (tools)   semantics              (Sec. 3.6, B.3)
               code of tools from feedback on tools, temperature 0.3     tools                  (App. A.3, B.3)
    f_G        ADD_PARALLEL, ADD_SERIAL, REMOVE_SUCCESSOR, CONNECT_...   structure              (Sec. 3.6, Fig. 10)
    omega      max corr(-Dist, success) on the simplex                   knowledge.fit_weights  (D.2, D.5, D20)
    lambda,    log odds of success = level of the batch                  knowledge.fit_score_weights (D.2, D33)
    eta        + lambda * (Dist by chance - Dist) + eta * log zeta
    repair     RepairTopology                                            structure              (G.1)

Departures from the paper (a test is named after each):
    D1   Beliefs decay toward the prior (1, 1), not toward (0, 0), where Beta is undefined. There is one update per
         iteration, with the increments of the batch summed: with a decay of 0.6 per run a belief hardly learns.
    D2   On success nothing is rewritten, and every agent and edge that ran has r = 1. In D.4, r always comes from a
         gradient, so either a winning team is rewritten or the bandit sees only failures.
    D3   theta is drawn (Thompson) or log P is perturbed (Gumbel); the printed mean with top-k never explores.
    D4   KM is the share of the task's concepts that the agent has, clipped to [0, 1]: zeta({A, I}) is undefined.
    D5   C_syn starts at 1 (at 0 no agent could ever be chosen) and is clipped to [1, 2]; a new edge starts at the
         mean of its siblings. Without a bound a newcomer never beats an incumbent.
    D6   The aggregator is no arm, unless `sink_is_arm` makes it one: it always receives the output, and receives the
         output itself. As an arm of Alg. 2 it takes one of k places, and leaves a fork of two a single one to run.
    D7   Candidates whose weighted mismatch exceeds 0.75 are left out unless none would remain; the wording of D.2
         has the opposite direction. Every step of evolution notes how many were left out.
    D8   New concepts are below the root, so d_I >= 1: at depth 0 Dist is 0 for every agent.
    D9   dt counts iterations that taught something, one update each, never seconds; a team that learned before
         continues its count.
    D10  Edges are pruned at (s + 1)/(n + 2) < 0.3 with n >= 8, where s counts solved tasks, never at or above the
         team's own rate since the edge was first used and never on the last path: raw rates would prune good edges in
         time, and a team's earlier tasks may have been easier.
    D11  An iteration takes a batch: each agent gets one f_P call, each node one f_G call over all its gradients.
    D12  Edits are collected, then applied one by one in reverse topological order; conflicts are recorded.
    D13  A trajectory with an infrastructure error teaches nothing.
    D14  omega is refitted only with at least 20 held-out tasks of mixed outcome.
    D15  Dependency paths ignore direction and lead neither through the root nor through other agents, which would
         make everything near everything.
    D16  A source that lost its last successor is joined to the sink again.
    D17  A cycle is undone at its newest edge; in one that no known edit made, at an edge against the order.
    D18  Who writes a gradient says in the same reply what it concerns; the paper parses it in a call of its own. Praise
         of an agent concerns neither its prompt nor its tools; what it lacks around it may still be named.
    D19  Lessons on agents and edges that the batch's own rewirings removed are set aside until the next update: if
         the gate rejects the rewirings, the kept team learns from the whole batch.
    D20  omega moves half way to the best fit, and only where the fit's correlation is 2.5/sqrt(n) or more and the move
         beats the omega before; an indicator that is equal in all tasks keeps its share. The maximum itself follows
         noise, and a constant indicator, of correlation 0, would win over all those below 0.
    D21  A task is characterised only where its concepts decide something: before a run in which the bandit has two arms
         at some node, and before f_G may offer ADD_PARALLEL. Without concepts, beliefs move by r alone.
    D22  Every agent reads the whole task beside its instruction. An instruction is short and written by a model: what
         it leaves out of a task with long texts, no later agent could know.
    D23  The aggregator gets the output of everybody who hands on to it. In Alg. 2 it takes only those without another
         successor (deg+ = 1), so that CONNECT_TO_AGGREGATOR would do nothing for an agent that has one.
    D24  Of a gradient only what is meant for the agents before it flows back to them. What its own prompt or tools
         should change is mended there; passed on, one fault would rewrite the prompts of the whole chain.
    D25  Who writes a gradient says its sentiment in the same reply; the paper judges it in a call of its own.
    D26  Embedded are the task's concepts, as one text, and each agent's role, prompt and what tools of the team's own
         that it holds are for, which Psi_1 compares. Nodes of the graph have no embeddings; an agent is joined to the
         concepts whose words it uses.
    D27  ADD_PARALLEL leaves the node's own way to the aggregator, which the newcomer works beside; two of them make the
         fork of Fig. 14 beside that way, which the figure does not have, as a decision adds one agent (Fig. 10).
    D28  omega's evidence is compared within an iteration's held-out tasks. The team changes between iterations, and
         what makes it better or worse as a whole says nothing about an indicator.
    D29  The team learns on train tasks, and what was rewired is kept if it proves its gain on held-out tasks. The
         paper evolves on each test sample and accepts every change; a run that does so says that it used labels.
    D30  A team has at most 12 nodes, an evolved prompt 4000 characters, an instruction 200 words. The paper has no
         limit on agents, and 1000 tokens for replies.
    D31  The weights of f_P are words of the prompt that rewrites a prompt. Feedback on tools goes to the tools first,
         and to the prompt where no code changes. Code counts only if it passes the tool's examples, calls whose right
         result the environment stated word for word, never a reference, and gives results for its writer's calls.
    D32  Of the k best arms only those run whose belief is half of the best one's or more: with equal evidence both of
         two run (E.1), and evidence takes one out (Fig. 16). The paper takes the k best.
    D33  lambda and eta are fitted after each batch by a penalised logistic regression of success on the terms of the
         score, from 10 and 0.5 on; delta stays. The paper learns all three for a domain and does not say how.
    D34  Every agent's critic also reads the task and the environment's verdict, not its successors' gradients alone;
         the verdict not in "w/o Env".
    D35  Beliefs learn from r less what the agent's own calls cost, and not below 0, at the price that an evolution with
         a proof has (`--objective`, by default 0.002 a call): an arm that does as well with fewer calls is the better
         one. Without a price r is the paper's. Past tasks, which Psi_3 counts, keep r.
"""
