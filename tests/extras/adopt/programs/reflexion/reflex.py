import datetime

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.output_parsers.openai_tools import PydanticToolsParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel, Field, ValidationError

llm = ChatOpenAI(model="gpt-5-mini")


class Reflection(BaseModel):
    missing: str = Field(description="Critique of what is missing.")


class AnswerQuestion(BaseModel):
    """Answer the question with a reflection."""

    answer: str = Field(description="An answer of about 250 words.")
    reflection: Reflection = Field(description="Your reflection on the answer.")


class ReviseAnswer(AnswerQuestion):
    """Revise your original answer."""

    references: list[str] = Field(description="Citations for the revised answer.")


actor = ChatPromptTemplate.from_messages(
    [
        (
            "system",
            """You are an expert researcher.
Current time: {time}

1. {first_instruction}
2. Reflect on your answer.""",
        ),
        MessagesPlaceholder(variable_name="messages"),
        ("user", "\n\n<system>Reflect on the question above using {function_name}.</system>"),
    ]
).partial(time=lambda: datetime.date(2026, 1, 1).isoformat())
first = actor.partial(
    first_instruction="Provide a detailed answer.", function_name=AnswerQuestion.__name__
) | llm.bind_tools(tools=[AnswerQuestion])
REVISE = """Revise your previous answer.
    - Use the critique."""
revisor = actor.partial(first_instruction=REVISE, function_name=ReviseAnswer.__name__) | llm.bind_tools(
    tools=[ReviseAnswer]
)


class Responder:
    def __init__(self, runnable, validator):
        self.runnable = runnable
        self.validator = validator

    def respond(self, state: MessagesState):
        response = self.runnable.invoke({"messages": state["messages"]}, {"tags": ["attempt:1"]})
        try:
            self.validator.invoke(response)
        except ValidationError as e:
            return {
                "messages": [
                    response,
                    ToolMessage(
                        content=f"{e!r}\n\nPay close attention to the function schema.",
                        tool_call_id=response.tool_calls[0]["id"],
                    ),
                ]
            }
        return {"messages": [response]}


first_responder = Responder(first, PydanticToolsParser(tools=[AnswerQuestion]))
reviser = Responder(revisor, PydanticToolsParser(tools=[ReviseAnswer]))


def run_queries(answer: str = "", **kwargs) -> str:
    """Run the generated queries."""
    return "Nothing was found on the web."


tool_node = ToolNode(
    [
        StructuredTool.from_function(run_queries, name=AnswerQuestion.__name__),
        StructuredTool.from_function(run_queries, name=ReviseAnswer.__name__),
    ]
)


def loop(state: MessagesState):
    if len(state["messages"]) > 4:
        return END
    return "tools"


builder = StateGraph(MessagesState)
builder.add_node("draft", first_responder.respond)
builder.add_node("tools", tool_node)
builder.add_node("revise", reviser.respond)
builder.add_edge(START, "draft")
builder.add_edge("draft", "tools")
builder.add_edge("tools", "revise")
builder.add_conditional_edges("revise", loop, ["tools", END])
graph = builder.compile()
