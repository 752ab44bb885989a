from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

PLANNER = "You plan a party."
COOK = """You cook for a party.
Mind allergies."""


class Agent:
    def __init__(self, name: str, prompt: str, model: str = "gpt-5-mini"):
        self.name = name
        self.prompt = prompt
        self.llm = ChatOpenAI(model=model)

    def run(self, state: MessagesState) -> dict:
        return {"messages": [self.llm.invoke([("system", self.prompt), *state["messages"]])]}


class Planner(Agent):
    def __init__(self):
        super().__init__("planner", PLANNER)


class Cook(Agent):
    def __init__(self, extra: str):
        super().__init__(name="cook", prompt=COOK + "\n" + extra)


class Party:
    def __init__(self):
        self.agents = {
            a.name: a for a in (Planner(), Cook("Cook for ten people."), Agent("dj", "You pick the music.", "gpt-5"))
        }
        self.graph = self._build()

    def _build(self):
        builder = StateGraph(MessagesState)
        previous = START
        for name, agent in self.agents.items():
            builder.add_node(name, agent.run)
        builder.add_edge(START, "planner")
        builder.add_edge("planner", "cook")
        builder.add_edge("cook", "dj")
        builder.add_edge("dj", END)
        return builder.compile()


graph = Party().graph
