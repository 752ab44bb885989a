from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables import chain as as_runnable
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field

fast = ChatOpenAI(model="gpt-5-nano")
long_context = ChatOpenAI(model="gpt-5")


class Section(BaseModel):
    title: str = Field(..., title="Title of the section", description="The title in title case.")


class Outline(BaseModel):
    sections: list[Section] = Field(default_factory=list, title="Titles and descriptions for each section.")

    @property
    def as_str(self) -> str:
        return "# Outline of the page\n" + "\n".join(s.title for s in self.sections)


outline_prompt = ChatPromptTemplate.from_messages(
    [("system", "You are a Wikipedia writer. Write an outline."), ("user", "{topic}")]
)
generate_outline = outline_prompt | fast.with_structured_output(Outline)
expand = ChatPromptTemplate.from_template("Name related pages for: {topic}") | fast


@as_runnable
async def survey(topic: str):
    related = await expand.ainvoke({"topic": topic})
    return related.text + "\n"


gen_qn = ChatPromptTemplate.from_messages(
    [
        ("system", "You ask questions. You are {persona}.\nSay thanks when you are done."),
        MessagesPlaceholder(variable_name="messages", optional=True),
    ]
)
PERSONAS = ("a historian", "a botanist")


class State(TypedDict):
    topic: str
    outline: Outline
    talk: list[AnyMessage]
    answer: str


async def init(state: State):
    outline = await generate_outline.ainvoke({"topic": state["topic"]})
    return {"outline": outline, "topic": await survey.ainvoke(state["topic"])}


async def interview(state: State):
    asks = [gen_qn.partial(persona=p) | fast for p in PERSONAS]
    talk = [await a.ainvoke({"messages": [HumanMessage(f"So you want to write on {state['topic']}?")]}) for a in asks]
    return {"talk": talk}


async def write(state: State):
    writer = ChatPromptTemplate.from_messages(
        [("system", "Write the page in full.\n{outline}"), ("user", "Write it in {style} style.")]
    ).partial(style="Markdown") | long_context.with_config(run_name="writer")
    reply = await writer.ainvoke({"outline": state["outline"].as_str})
    return {"answer": reply.text}


b = StateGraph(State)
for name, fn in [("init", init), ("interview", interview), ("write", write)]:
    b.add_node(name, fn)
b.add_edge(START, "init")
b.add_edge("init", "interview")
b.add_edge("interview", "write")
b.add_edge("write", END)
graph = b.compile()
