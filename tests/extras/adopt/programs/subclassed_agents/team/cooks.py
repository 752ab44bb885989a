from .base import BaseAgent


class Chef(BaseAgent):
    name = "chef"

    @property
    def task(self) -> str:
        return "Invent a dish."


class Baker(BaseAgent):
    name = "baker"
    preamble = "You belong to the bakery."
    task = "Invent a cake."


class Waiter(BaseAgent):
    name = "waiter"

    def __init__(self, mood: str = "cheerful"):
        super().__init__()
        self.task_text = f"Present the dishes in a {mood} way."

    @property
    def task(self) -> str:
        return self.task_text
