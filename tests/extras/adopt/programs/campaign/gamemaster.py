from __future__ import annotations

import random
import typing as t
from string import Template

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    LLMToolSelectorMiddleware,
    SummarizationMiddleware,
    before_model,
    wrap_tool_call,
)
from langchain.chat_models import init_chat_model
from langchain_core.messages import SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, PrivateAttr

WORLD = Template(
    "You are the game master of $realm.\n"
    "The party stands before $place. Describe in two sentences, then ask what they do."
)
REALMS = {
    "ash": dict(realm="the Ashen Coast", place="a drowned lighthouse"),
    "moss": dict(realm="Mossgate", place="a door which breathes"),
}
CREDITS = "You are playing Ember & Ivy, a game by two people."


class DiceArgs(BaseModel):
    sides: t.Literal[4, 6, 8, 20] = Field(20, description="Number of sides of the die")
    bonus: int = Field(0, ge=-5, le=10, description="Added to the throw; negative for a handicap")


class Dice(BaseTool):
    name: str = "roll_dice"
    description: str = "Throw one die for a risky deed. Never invent a result."
    args_schema: type[BaseModel] = DiceArgs
    _rng: random.Random = PrivateAttr(default_factory=random.Random)

    def _run(self, sides: int = 20, bonus: int = 0) -> str:
        return f"The die shows {self._rng.randint(1, sides) + bonus}."


class Bag(BaseTool):
    name: str = "look_in_bag"
    description: str = "List what the party carries."
    items: list[str] = []

    def _run(self) -> str:
        return ", ".join(self.items) or "The bag is empty, save for dust."


class GameState(AgentState):
    turn: t.NotRequired[int]


@before_model(state_schema=GameState)
def count_turns(state: GameState, runtime: Runtime) -> dict[str, t.Any] | None:
    turn = state.get("turn", 0) + 1
    update: dict[str, t.Any] = {"turn": turn}
    if turn % 5 == 0:
        update["messages"] = [SystemMessage("Something must go wrong in this turn.")]
    return update


@wrap_tool_call
def soften(request, handler):
    try:
        return handler(request)
    except ValueError as exc:
        return ToolMessage(
            content=f"The dice rolled under the table ({exc}). Tell the story without them.",
            tool_call_id=request.tool_call["id"],
        )


class Campaign:
    registry: t.ClassVar[dict[str, "Campaign"]] = {}

    def __init__(self, key: str, *items: str) -> None:
        self.key, self.items = key, list(items)
        Campaign.registry[key] = self

    def __call__(self):
        llm = init_chat_model("openai:gpt-4.1", temperature=0.9)
        return create_agent(
            llm,
            tools=[Dice(), Bag(items=self.items)],
            system_prompt=SystemMessage(WORLD.substitute(REALMS[self.key])),
            middleware=[
                count_turns,
                soften,
                SummarizationMiddleware(
                    model="openai:gpt-4.1-nano",
                    trigger=("messages", 40),
                    keep=("messages", 10),
                    summary_prompt="Retell the adventure so far as a bard would, in ten lines:\n{messages}",
                ),
                LLMToolSelectorMiddleware(
                    system_prompt="Choose the tools the game master may touch in this turn.",
                    max_tools=1,
                ),
            ],
            state_schema=GameState,
            name=f"gm_{self.key}",
        )


Campaign("ash", "rope", "a jar of bees")
Campaign("moss", "lantern")
game = Campaign.registry["moss"]()
