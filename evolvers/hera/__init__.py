"""HERA: orchestration that learns from experience, and role-aware prompt evolution.

Li and Ramakrishnan, "Experience as a Compass: Multi-agent RAG with Evolving Orchestration and Agent Prompts".
Every function that asks a model raises BudgetError where the run must stop. In the order of the paper:

    agents     the eight and a default chain                               initial_team     (Sec. 4)
    group      G topologies ~ pi(. | q, E, N), executed, ranked            planning, groups (Sec. 3.1, Alg. 2)
    I          insights of groups with success and failure                 reflection       (Sec. 3.1, Alg. 2)
    E          (c, z, u): ADD, MERGE, PRUNE, KEEP                          library          (Sec. 3.2, Alg. 3)
    retrieve   descending u, similar to c, not redundant, rarely used      library          (Sec. 3.2, Alg. 4)
    c          profile of a question                                       planning         (Alg. 4, App. D.1)
    blame      the primary cause of a failure; buffers of failures         rope             (Sec. 3.4.1, Alg. 1)
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
        before them; where no step answers, the answer generator is added. In a mutation the agent that answers gives
        its place to one that answers too, if the pool has another.
    D6  The group of mutated topologies is compared together with the group that failed; otherwise a mutation that
        always helps would teach nothing. There is one such group per question and evolution, in which each candidate
        runs once; literally, each would have a group of its own.
    D7  The questions of a batch are planned with the library as it was before the batch, and prompts evolve once per
        batch and agent, by the agent's last failure; a batch of one is the paper's.
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
    D15 Blamed is one agent of the group's best-ranked failure. Alg. 1 makes one more run for it; the group has G
        samples of the same policy already, and the best failure is nearest to success.
    D16 A variant adds instructions to the prompt instead of rewriting it. What differs is then known word by word, and
        role and tools stay.
    D17 Consolidation is one decision per group, as in App. B, that sees entries that match its insights, as in Alg. 3.
        App. B shows the whole library, which may hold 100 entries; Alg. 3 decides on one insight after the other.
    D18 No insight is pruned for its utility alone, only in a conflict (Alg. 3) or out of a full library. Utility
        depends on how hard the questions are: on hard ones, all insights would go.
    D19 The contrast shows the varied agent's own work with answer, score, feedback and tokens, not that of agents whose
        prompts were frozen, and proposes no new prompt: App. B asks for that twice, and the diff of the integration is
        it.
    D20 Experience is always kept; changes of prompts and pool have to prove a gain on held-out tasks. In the paper,
        every change stays.
    D21 Limits that the paper lacks, for the bill: 12 steps of a plan, 16 agents, 3 agents per batch whose prompts
        evolve, 100 insights.
    D22 A question is characterised where the library has insights to retrieve by it; else only when a mixed group is
        about to teach the first ones. The paper does it for every question, also where nothing can be retrieved.
    D23 Agents that a pruning takes out of the pool are planned with as before, and their steps are left out: so a plan
        is the same without them, and what it loses can be told from chance. A tool that is taken out changes plans: its
        agent is shown without it, and not at all if D14 says so. The paper takes nothing out.
    D24 A prompt without rules and principles takes its first lesson as it is, within the limits: nothing is there that
        a call could integrate it with. App. B integrates every lesson by a call.
    D25 A pruning may give all questions one plan, where they do no worse by it: then answers ask for no profile and no
        plan, and insights are not read. Tried are the three plans that are most like those of successful runs, also
        with each agent once, and without a first and a last step that can go. Groups that teach then run by it too, and
        teach prompts only: insights and newcomers are for planners. In the paper every query has a plan of its own.
"""
