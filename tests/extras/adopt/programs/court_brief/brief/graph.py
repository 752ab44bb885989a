from typing import TypedDict

from langgraph.graph import StateGraph

from brief.chains import make_draft_chain, make_issue_chain
from brief.settings import DEFAULT_COURT


class Case(TypedDict, total=False):
    facts: str
    court: str
    issues: list[str]
    brief: str


class BriefGraph:
    def __init__(self) -> None:
        self.issue_chain = make_issue_chain()
        self.draft_chain = make_draft_chain()

    async def find_issues(self, state: Case) -> Case:
        found = await self.issue_chain.ainvoke(
            {"facts": state["facts"], "court": state.get("court", DEFAULT_COURT)}
        )
        return {"issues": found.issues}

    async def draft(self, state: Case) -> Case:
        text = await self.draft_chain.ainvoke({"issues": state["issues"], "court": state.get("court", DEFAULT_COURT)})
        return {"brief": text}

    def build(self):
        graph = StateGraph(Case)
        graph.add_sequence([("find_issues", self.find_issues), ("draft", self.draft)])
        graph.set_entry_point("find_issues")
        graph.set_finish_point("draft")
        return graph.compile(name="brief")


graph = BriefGraph().build()
