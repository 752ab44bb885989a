"""The trained router: a routing head that draws agents for a state, trained by the rewards of its runs.

Xu et al., "EvoMAS: Learning Execution-Time Workflows for Multi-Agent Systems", Sec. 3.2 and 3.3. It can draw the
layers of a stage, or a node's successors in any team. In the order of the paper:

    G_t         layers of agents of the pool, each layer joined to the next    decisions.LayeredWorkflow (Eq. 1, 8)
    pi_wf       a choice of layers from the rows of the state                  decisions.LayerChooser    (Eq. 3, 13)
    e_i         embedding of an agent's role, capabilities and tools           decisions.agent_text      (Eq. 21)
    c^(l)       mean embedding of the agents of earlier layers, 0 at l = 1     heads.compute_contexts    (Eq. 22)
    X~          [X; c], the rows that ask                                      head.RoutingHead          (Eq. 23)
    Q, K, V     X~ W_Q, E W_K, E W_V                                           head.RoutingHead          (Eq. 24)
    h           mean over rows of Attn(Q, K, V)                                head.RoutingHead          (Eq. 25, 26)
    alpha, p    cos(h, e_i); softmax(alpha / lambda)                           head.RoutingHead          (Eq. 10, 11)
    draw        without replacement, until the mass drawn reaches rho          choosers.draw             (Eq. 12, 29)
    log P(i)    sum_r log( p_{i_r} / (1 - sum_{q<r} p_{i_q}) )                 choosers.log_probability  (Eq. 28)
    log P(G_t)  sum over layers                                                decisions.LayeredWorkflow (Eq. 14)
    exit        whether the run ends before a layer, a Bernoulli of its own    head.RoutingHead          (C.4.6, D28)
    grad J      sum_t U grad log P(G_t | s_t)                                  reinforce.Learner         (Eq. 15, 16)

Departures (a test is named after each; D11 to D21 and D23 to D27 are in `evolvers.evomas`):
    D1  One row per field of the state, each embedded whole; the paper embeds tokens. Where `state` is tokens, every
        word is embedded by itself, without the words around it, as an embedder gives one vector per text. The parts
        of rows add up, so that no weights say who acts where two agents swap; `paired` embeds rows with the first.
    D2  Layer normalisation, without weights of its own, on the rows and on the agents, and W_Q = W_K = W_V = I at
        the start: with token rows and Xavier weights the untrained head hardly sees the state.
    D3  log P is logit_i - logsumexp(logits not yet drawn): 1 - sum p cancels to nothing where p is peaked.
    D4  At most `width` agents per layer; a uniform p over 100 agents would draw 50.
    D5  The mass counts as reached at rho - 1e-9, so that sums like 0.3 + 0.2 do not draw one agent too many.
    D6  Masked agents have no probability, and that of the others is renormalised before rho is applied.
    D7  Leave-one-out baseline, entropy bonus, clipped gradients, and batches whose returns are all equal are
        skipped; the preset `paper` switches these off.
    D8  An episode that ended with an infrastructure error has no utility and teaches nothing; it does not count as 0.
    D9  With process reward the return from stage t is U + (w / T) * sum of the rewards from stage t on.
    D10 Weights trained for one pool can route another one, as agents enter by their texts only; `transfer` allows it.
    D22 U is the answer's score in [0, 1], so that a better answer that is not yet right counts more; the paper counts
        success, as the preset `paper` does.
    D28 Early-exit is decided apart, before each layer where it may be drawn: with probability
        sigmoid((w . x + b) / lambda + logit(0.1)), x the mean of the rows that ask, learned by the same return with a
        baseline of its own. No agent of its layer acts. In the paper it is an agent of the softmax, so that who acts
        and whether the run ends share their weights and their probability; `exit` is agent for that.
"""
