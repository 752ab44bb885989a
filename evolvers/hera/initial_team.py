"""The agents of the pool and the default chain (Sec. 4, implementation details; the calculator is D9)."""

from collections.abc import Sequence

from selfwire.core.agent import Agent
from selfwire.core.prompts import Prompts
from selfwire.core.topology import make_chain
from selfwire.core.values import Id
from selfwire.core.workflow import Workflow

METHOD = "hera"
CALCULATOR = "calculator"

ROLES = {
    "query_decomposer": "Breaks a question that needs several facts down into simple sub-questions, in order.",
    "query_rewriter": "Rewrites questions so that a search finds what they are about.",
    "retriever": "Searches the corpus for passages on open questions.",
    "evidence_selector": "Reads passages and picks the facts that answer open questions.",
    "context_validator": "Checks whether the evidence suffices and says what is still missing.",
    "answer_generator": "Writes the answer from the evidence.",
    "reflect_agent": "Looks for mistakes in what was done and says how to mend them.",
    "conclude_agent": "Weighs everything that was found and gives the final answer.",
    CALCULATOR: "Computes, counts and compares values, dates and periods, and intersects lists.",
}
ANSWERING = ("answer_generator", "conclude_agent")
CHAIN = ("query_decomposer", "retriever", "evidence_selector", "answer_generator")
"""The default chain, which runs where a plan cannot be used."""


def make_initial_workflow(prompts: Prompts, *, tools: Sequence[Id] = ()) -> Workflow:
    """The pool of eight and the calculator, around the default chain.

    The retriever holds the tools, except a calculator, which goes to the calculator.
    """
    computing = tuple(tool for tool in tools if tool == CALCULATOR)
    finding = tuple(tool for tool in tools if tool != CALCULATOR)
    held = {CALCULATOR: computing, "retriever": finding}
    return Workflow(
        method=METHOD,
        agents=tuple(
            Agent(
                id=name,
                role=role,
                prompt=prompts.text(f"agent_{name}").strip(),
                tools=held.get(name, ()),
                kind="aggregator" if name in ANSWERING else "worker",
            )
            for name, role in ROLES.items()
        ),
        topology=make_chain(*CHAIN),
    )
