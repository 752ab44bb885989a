"""Static inventory of a LangGraph program: nodes, edges, tools, models and the texts that reach models.

How a program is read, file by file:

    files     its source files, and an index of what stands in them (`syntax`, `names`)
    source    what an expression may stand for: `Program.trace`
    kinds     what a traced value is: a graph, an agent, a model; and the texts that it may be
    graphs    nodes and edges; each node's code and tools, by `code` and `makers`
    code      what that code asks models for; `makers` reads the agents, tools and schemas in it
    texts     from there back to literals and files (`prompt_files`); `held_texts` notes what no rule follows
    reader    all of this as an inventory, with `settings`; `page` prints it

`layer` chooses what of an inventory can be evolved, and `patch` writes it back, with `edge_patch` and `model_patch`.
`confirm` starts `confirm_child`, which asks the graph on replies of `canned` behind `guard`, and finds by `sent_texts`
what it has sent.
"""
