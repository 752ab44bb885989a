from typing import TypedDict

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, FewShotPromptTemplate, PromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

examples = [
    {"question": "How many tracks are there?", "query": "select count(*) from tracks"},
    {"question": "Who sings Hello?", "query": "select artist from tracks where name = 'Hello'"},
]
example_prompt = PromptTemplate.from_template("Question: {question}\nQuery: {query}")
few_shot = FewShotPromptTemplate(
    examples=examples,
    example_prompt=example_prompt,
    prefix="You write SQL. These are examples:",
    suffix="Question: {question}\nQuery:",
    input_variables=["question"],
)
llm = ChatOpenAI(model="gpt-4o-mini", temperature=0)
write_query = {"question": RunnablePassthrough()} | few_shot | llm | StrOutputParser()
answer_prompt = ChatPromptTemplate.from_template(
    "Answer by these rows: {{rows}}\nQuestion: {{question}}", template_format="mustache"
)


class State(TypedDict):
    question: str
    query: str
    rows: str
    answer: str


async def write(state: State):
    return {"query": await write_query.ainvoke(state["question"])}


async def run(state: State):
    return {"rows": "no rows" if state["query"].startswith("delete") else "3 rows"}


async def answer(state: State):
    chain = answer_prompt | llm
    text = ""
    async for chunk in chain.astream({"rows": state["rows"], "question": state["question"]}):
        text += chunk.content
    return {"answer": text}


async def polish(state: State):
    extra = f"The rows were: {state['rows']}"
    return {"answer": (await llm.ainvoke("Polish this answer. %(extra)s" % {"extra": extra})).content}  # noqa: UP031


builder = StateGraph(State)
builder.add_sequence([("write", write), ("run", run), ("answer", answer), polish])
builder.add_edge(START, "write")
builder.add_edge("polish", END)
graph = builder.compile()
