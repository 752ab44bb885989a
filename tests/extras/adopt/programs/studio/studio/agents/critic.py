from string import Template

from .base import BaseAgent, register

VERDICTS = ("ACCEPT", "REVISE")


@register
class Critic(BaseAgent):
    key = "critic"
    role = "You are a harsh art critic."
    template = Template(
        "Judge this description:\n${draft}\n\n"
        "End with ACCEPT or REVISE."
    )

    def system(self):
        base = super().system()
        return base + "\nNever praise."

    def variables(self, state):
        return {"draft": state["draft"]}

    def update(self, state, text):
        verdict = next((v for v in VERDICTS if v in text), "REVISE")
        return {"verdict": verdict, "review": text}
