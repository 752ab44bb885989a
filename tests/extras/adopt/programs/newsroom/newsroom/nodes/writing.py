from langchain_core.prompts import PromptTemplate

from .. import prompts as wording
from ..llm import get_model
from ..state import Story


async def report(state: Story):
    reply = await get_model().ainvoke([("system", wording.REPORTER), ("human", state.topic)])
    return {"report": reply.text}


async def edit(state: Story):
    ask = PromptTemplate.from_template(wording.EDITOR)
    reply = await get_model().ainvoke(ask.format(report=state.report))
    return {"report": reply.text}


async def headline(state: Story):
    msgs = [("system", wording.HEADLINE_RULES + "\n" + wording.HOUSE_TONE), ("human", state.report)]
    reply = await get_model("fast").ainvoke(msgs)
    return {"headline": reply.text}
