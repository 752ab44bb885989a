from base import BaseAgent, GardenState, PoliteMixin
from langgraph.graph import END


class TomatoAgent(PoliteMixin, BaseAgent):
    temperature = 0.3
    WATER = """Say how much water tomatoes need in {season}."""

    @property
    def system_prompt(self) -> str:
        return super().system_prompt + " You grow tomatoes. " + self.manners

    def water(self, state: GardenState) -> dict:
        text = self.WATER.format(season=state.get("season", "summer"))
        return {"messages": [self.model.invoke(text)]}

    def extend(self, g) -> None:
        g.add_node("water", self.water)
        g.add_edge("respond", "water")
        g.add_edge("water", END)


class OrchidAgent(BaseAgent):
    @property
    def system_prompt(self) -> str:
        return "Nobody makes this agent."


greenhouse = TomatoAgent().compile()
