from langchain_core.messages import SystemMessage
from langchain_ollama import ChatOllama
from langgraph.graph import END, START, MessagesState, StateGraph


class Prompts:
    TEACH = "You are a patient tutor. Explain one idea at a time."
    QUIZ = "You are an examiner. Ask one question."
    FAREWELL = "Goodbye."


class Tutor:
    """Graph of a tutor, with nodes as methods."""

    hint = "Never give the answer away."

    def __init__(self, model_name: str = "llama3.1"):
        self.llm = ChatOllama(model=model_name)
        self.teach_prompt = SystemMessage(content=Prompts.TEACH)
        builder = StateGraph(MessagesState)
        builder.add_node("teach", self.teach)
        builder.add_node("quiz", self.quiz)
        builder.add_edge(START, "teach")
        builder.add_conditional_edges("teach", self.after_teaching, {True: "quiz", False: END})
        builder.add_edge("quiz", END)
        self.graph = builder.compile()

    def teach(self, state: MessagesState):
        return {"messages": [self.llm.invoke([self.teach_prompt, *state["messages"]])]}

    def quiz(self, state: MessagesState):
        system = Prompts.QUIZ + "\n" + self.hint
        return {"messages": [self.llm.invoke([SystemMessage(content=system), *state["messages"]])]}

    def after_teaching(self, state: MessagesState) -> bool:
        return "quiz me" in state["messages"][-1].content


graph = Tutor().graph
