"""Text adventure: agents with handoffs by tools, dataclass state, pre_model_hook, custom tool node."""
from dataclasses import dataclass, field
from typing import Annotated, Any, Callable, Literal, Union

from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.managed import RemainingSteps
from langgraph.prebuilt import InjectedState, create_react_agent
from langgraph.types import Command, Send
from pydantic import BaseModel, Field, PrivateAttr


class Character(BaseModel):
    name: str
    voice: str = "plain"
    secrets: tuple[str, ...] = ()

    def system(self) -> str:
        known = "; ".join(self.secrets) or "nothing"
        return f"You are {self.name}. Speak in a {self.voice} voice. You know: {known}."


CAST = [
    Character(name="Mira", voice="whispering", secrets=("the key is under the mat",)),
    Character(name="Olaf", voice="booming"),
]


@dataclass
class Game:
    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)
    turn: int = 0
    speaker: str = "Mira"
    remaining_steps: RemainingSteps = 0


def make_handoff(target: str, description: str | None = None) -> BaseTool:
    @tool(f"talk_to_{target.lower()}", description=description or f"Let {target} speak next.")
    def handoff(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        note = ToolMessage(f"{target} listens.", tool_call_id=tool_call_id)
        return Command(goto=target, graph=Command.PARENT, update={"messages": [note], "speaker": target})

    return handoff


@tool
def roll_dice(sides: Annotated[int, Field(description="Number of sides")] = 6) -> str:
    """Roll a die."""
    return "3"


def shorten(state: dict[str, Any]) -> dict[str, Any]:
    head = SystemMessage("Earlier talk is left out.")
    return {"llm_input_messages": [head, *state["messages"][-6:]] if len(state["messages"]) > 6 else state["messages"]}


llm = init_chat_model("openai:gpt-4o-mini", configurable_fields=("temperature",), temperature=0.5)


def build_agent(who: Character, others: list[Character]):
    handoffs = [make_handoff(o.name) for o in others]
    return create_react_agent(
        llm,
        [roll_dice, *handoffs],
        prompt=who.system(),
        name=who.name,
        pre_model_hook=shorten,
    )


def narrator(state: Game) -> Command[Literal["Mira", "Olaf", "__end__"]]:
    if state.turn >= 2:
        return Command(goto=END)
    story = llm.invoke(
        [SystemMessage("You narrate a mystery in two sentences."), *state.messages]
    )
    told = HumanMessage(story.text, name="narrator")
    return Command(goto=state.speaker, update={"messages": [told], "turn": state.turn + 1})


builder = StateGraph(Game)
builder.add_node("narrator", narrator)
for who in CAST:
    builder.add_node(who.name, build_agent(who, [c for c in CAST if c is not who]))
    builder.add_edge(who.name, "narrator")
builder.add_edge(START, "narrator")
game = builder.compile()
