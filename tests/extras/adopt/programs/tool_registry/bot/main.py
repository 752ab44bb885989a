from langchain.agents import create_agent

from bot import tools
from bot.registry import SKILLS, TOOLS


def system_prompt() -> str:
    prompt = "You are a bot with skills:\n"
    for name, text in SKILLS.items():
        prompt += f"- {name}: {text}\n"
    return prompt


agent = create_agent("openai:gpt-5-mini", tools=TOOLS, system_prompt=system_prompt(), name="bot")
