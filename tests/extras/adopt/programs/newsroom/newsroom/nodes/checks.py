from newsroom.llm import get_model
from newsroom.prompts import DESK
from newsroom.state import Story


async def _check(section: str, text: str) -> str:
    reply = await get_model().ainvoke([("system", DESK[section]["system"]), ("human", text)])
    return reply.text


async def fact_check(state: Story):
    return {"notes": [await _check("fact_check", state.report)]}


async def legal(state: Story):
    return {"notes": [await _check("legal", state.report)]}
