from string import Template

from .base import BaseAgent, register


@register
class Painter(BaseAgent):
    key = "painter"
    template = Template("Describe a painting of $subject in $n sentences.")

    def variables(self, state):
        return {"subject": state["subject"], "n": 3}

    def update(self, state, text):
        return {"draft": text, "rounds": state.get("rounds", 0) + 1}
