"""DyTopo: the communication graph is rebuilt every round by matching needs with offers.

Lu et al., "DyTopo: Dynamic Topology Routing for Multi-Agent Reasoning via Semantic Matching". In the order of
the paper:

    state      S_i = [rho_i; C_task; H_i]                            agents.DytopoAgents.take_turn (Eq. 1)
    output     O_i = <m_pub, m_priv, s_q, s_k> from one call         schemas.turn_schema       (Eq. 2)
    memory     H_i' = H_i + m_pub,i + Sigma(m_priv,j of providers)   delivery.update_memories  (Eq. 3)
    embedding  q_i = Emb(s_q,i), k_i = Emb(s_k,i), one batch         induction.similarities    (Eq. 4)
    relevance  r_ij = cos(q_i, k_j)                                  induction.relevance       (Eq. 5)
    adjacency  A_j->i = 1 if r_ij > tau and i != j, K_in best        induction.adjacency       (Eq. 6, 7, Table 7)
    reading    providers by decreasing r_ij                          induction.order_edges     (Sec. 3.4)
    order      sigma: topological, else smallest in-degree first     induction.aggregation_order (Eq. 8-11)
    global     S_global = [C_task; Sigma(m_pub)]                     agents.render_global_state (Eq. 12)
    manager    <y, C_task'> = Pi(S_global)                           agents.DytopoAgents.manage (Eq. 13)
    halting    y = 1 if Phi(S_global) >= gamma                       halting.find_objection    (Eq. 14)
    answer     from the last global state                            halting.choose_answer     (Alg. 1)

Departures (a test is named after each):
    D1   Workers read private messages by decreasing r, the manager reads public ones in order sigma; the paper says
         both of private messages (Sec. 3.4, Eq. 3).
    D2   The private channel is one text, for whoever has the need (Eq. 2). App. B.1 addresses entries to roles, which
         only an edge could deliver: of messages addressed by name two in three were lost. A line [public] or [answer]
         in it stands for that field, so that a reply holds a program once.
    D3   A blank or missing query or key has no edge and is never embedded: two blanks have cosine 1. "None", "n/a" and
         the like are blanks.
    D4   The manager's verdict alone does not end a run: an answer must exist, and the latest verdict of every
         checker, a field of its reply, must be "pass" on the current answer, given before the round of the verdict.
    D5   Workers may hold tools: a reply may name calls, and their results reach the worker's own memory at the barrier.
         It still speaks once per round.
    D6   A worker that fails is left out of its round, and the record says so; a round in which all fail is the last.
         After a failed manager the goal stays.
    D7   tau is 0.3 for both domains: at 0.4 MiniLM keeps the solution from the verifier (0.312).
    D8   Memories have a limit; the oldest entries are dropped first, and the record lists them.
    D9   Relevances are rounded to six decimals and clipped to [-1, 1], so that rounding lets no perfect match pass
         tau = 1 and ties are the same on every machine.
    D10  The random baseline has the edge count of the graph that would have been induced in that round, and K_in. It
         halts as the method does; the variants `random-fixed` and `broadcast-fixed` run the paper's five rounds.
    D11  The last round has no manager: nothing can follow it, so its verdict would decide nothing.
    D12  Members and manager read all needs of the round and who answered them, and the manager the offers too. In the
         paper no agent reads a need, so an agent that could answer it does not hear of it.
    D13  The manager is no vertex (Alg. 1), so it is not asked for a query, a key and private messages, as App. B.1
         asks it: nothing would read them.
    D14  Beyond Eq. 1 and 12 members read the task beside the goal, who is in the team, their tools and the round's
         number; the manager reads the task, answers, verdicts, failures and the round's number.
    D15  The answer is the newest that an answerer has given, also if it was silent in the last round, of whose global
         state alone the paper speaks.
    D16  L_max is the model's own limit (2,048 tokens unless it is built with `max_tokens`), and public messages have at
         most 200 words beside code; the paper allows 3,000 to 5,000 tokens and 1,000 to 2,000 words. Memories of
         ten rounds have to fit into the reader's context.
    D17  A worker remembers the newest answer that it has given, and a member whom the goal names reads the team's
         answer so far: in the paper nobody but the manager reads an answer, so whoever is asked to check one cannot.
         Who reads a long answer does not read it again in messages, and its author need not write it again: the
        manager reads the one that stands.
    D18  The manager may name who speaks next; the others are not asked, which saves their calls. In the paper all speak
         in every round. The answerers speak in the last round in any case.
    D19  A single turn (`single-turn`) is one round without messages, of which the answerer's reply alone counts: nobody
         reads the others', nor results of tools. App. D.1 has four agents solve the task side by side, and does not
         say how four solutions become one answer.
"""
