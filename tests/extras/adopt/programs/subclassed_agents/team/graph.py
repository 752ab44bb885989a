from langgraph.graph import END, START, MessagesState, StateGraph

from team.cooks import Baker, Chef, Waiter

builder = StateGraph(MessagesState)
agents = [Chef(), Baker(), Waiter(mood="solemn")]
for agent in agents:
    builder.add_node(agent.name, agent)
builder.add_edge(START, agents[0].name)
for a, b in zip(agents, agents[1:]):
    builder.add_edge(a.name, b.name)
builder.add_edge(agents[-1].name, END)
graph = builder.compile()
