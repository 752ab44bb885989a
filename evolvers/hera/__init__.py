"""HERA: orchestration that learns from experience, and role-aware prompt evolution.

Li and Ramakrishnan, "Experience as a Compass: Multi-agent RAG with Evolving Orchestration and Agent Prompts".
Whatever asks a model raises BudgetError where the run must stop. In the order of the paper:

    agents     the eight and a default chain                               seed             (Sec. 4)
    group      G topologies ~ pi(. | q, E, N), executed, ranked            planning, groups (Sec. 3.1, Alg. 2)
    I          insights of groups with success and failure                 reflection       (Sec. 3.1, Alg. 2)
    E          (c, z, u): ADD, MERGE, PRUNE, KEEP                          experience       (Sec. 3.2, Alg. 3)
    retrieve   descending u, similar to c, not redundant, rarely used      experience       (Sec. 3.2, Alg. 4)
    c          profile of a question                                       profile          (Alg. 4, App. D.1)
    blame      the primary cause of a failure; buffers of failures         failed_agent     (Sec. 3.4.1, Alg. 1)
    rope       variants along axes, replays, rules and principles          rope             (Sec. 3.4.1, Alg. 5)
    Pi_C       rho' = Pi_C(rho + delta rho), as a diff                     rules            (Sec. 3.4.2)
    mutate     replace the failed agent, or insert a new one after it      mutation         (Sec. 3.5, Alg. 6)
    H          -sum p ln p, agents, F1 / |V|, loops, cycles, diameter      evals' metrics   (Sec. 5.4)

Departures from the paper (a test is named after each):
    D1  u = (s + 1) / (n + 2) over every graded rollout that was shown the insight, in every group. Alg. 3 only adds 1,
        and only after mixed groups.
    D2  Retrieval ranks by u + 0.1 / sqrt(1 + n): the text prefers rarely used insights, Alg. 4 does not say how.
    D3  PRUNE removes only entries with n >= 3 and a lower utility than what they conflict with; the new insight
        replaces them. Where one stays, the new insight is left out. Alg. 3 prunes and never adds the new one.
    D4  A MERGE adds counts and joins sources.
    D5  A topology has one entry and one sink, which answers: where a plan has several starts, the decomposer is put
        before them; where no step answers, the answer generator is added.
    D6  The group of mutated topologies is compared together with the group that failed; otherwise a mutation that
        always helps would teach nothing. There is one such group per question and evolution.
    D7  Prompts evolve once per batch and agent, by the agent's last failure; a batch of one is the paper's.
    D8  A new agent of a mutation joins the pool if its trajectory succeeded; the paper does not say.
    D9  The pool has a calculator, which the paper's third case study needs.
    D10 Pi_C never changes the core of a prompt (role and tools); principles are reworded, never dropped for rules.
    D11 Infrastructure errors teach nothing: such rollouts and replays are no failures and change no utility.
    D12 Replays have a control, the original prompt at the same temperature; otherwise every variant would be credited
        with effects of the temperature.
    D13 Questions are similar if they have the same type, but "other" is no type, or if their summaries are close. The
        words for type and difficulty are left out of that comparison, as sharing them makes any texts close.
    D14 Nobody is planned with who can do nothing: without a tool to search with there is neither retriever nor rewriter
        in plans, in the default chain and among the alternatives of a mutation.
"""
