"""A council scene: two counsellors debate, a chronicler keeps score, the monarch decides."""
import random
from typing import Annotated, Literal

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel, Field, create_model

from personas import COUNCIL, Persona, sheet_of

ROUNDS = 3
TWISTS = (
    "A messenger bursts in: the eastern gate is cracking!",
    "The lamps gutter. Someone in the gallery laughs.",
    "A child offers the monarch a jar of seawater.",
)

chat = ChatOpenAI(model="gpt-4o-mini", temperature=1.1)
judge = ChatOpenAI(model="gpt-4o", temperature=0)


class CouncilState(MessagesState):
    motion: str
    turn: int
    tally: str
    ruling: str


Score = create_model(
    "Score",
    __doc__="Points for each counsellor after a round.",
    **{
        p.name.lower(): (int, Field(ge=0, le=10, description=f"points for {p.name}, 0 to 10"))
        for p in COUNCIL
        if not p.retired
    },
)


class Ruling(BaseModel):
    """The monarch's ruling, as read out by the herald."""

    winner: Literal["Orlaith", "Bram", "nobody"]
    proclamation: str = Field(title="Proclamation text", description="Two rhyming lines")


def make_counsellor(me: Persona, rival: Persona):
    sheet = sheet_of(me)

    def perspective(msg):
        if getattr(msg, "name", None) == me.name:
            return AIMessage(msg.content, name=me.name)
        if getattr(msg, "name", None) == rival.name:
            return HumanMessage(f"{rival.name} says: {msg.content}")
        return msg

    def speak(state: CouncilState):
        opening = [SystemMessage(sheet), HumanMessage("The motion before the council: " + state["motion"])]
        if not state["messages"]:
            opening.append(HumanMessage("You have the floor first. Make your case."))
        history = [perspective(m) for m in state["messages"]]
        if state.get("tally"):
            opening[0] = SystemMessage(sheet + "\nThe chronicler's tally so far: " + state["tally"])
        said = chat.invoke(opening + history)
        return {"messages": [AIMessage(said.content, name=me.name)], "turn": state.get("turn", 0) + 1}

    speak.__doc__ = f"{me.name} speaks against {rival.name}."
    return speak


def chronicler(state: CouncilState):
    transcript = "\n".join(f"{m.name or 'Herald'}: {m.content}" for m in state["messages"])
    score = judge.with_structured_output(Score, method="function_calling").invoke(
        [
            ("system", "You are the chronicler. Score this round for wit and substance."),
            ("human", transcript),
        ]
    )
    return {"tally": ", ".join(f"{k} {v}" for k, v in score.model_dump().items())}


def twist(state: CouncilState):
    return {"messages": [HumanMessage(random.choice(TWISTS), name="Herald")]}


def forget(state: CouncilState):
    """Keep the last six utterances only."""
    return {"messages": [RemoveMessage(id=m.id) for m in state["messages"][:-6]]}


def monarch(state: CouncilState):
    prompt = f"""You are the monarch of the Tidal Throne.
Motion: {state['motion']}
Tally: {state['tally']}

Last words:
{chr(10).join(m.content for m in state['messages'][-2:])}

{'The tally is close; let mercy decide.' if state['turn'] % 2 else 'Rule.'}"""
    r = judge.with_structured_output(Ruling).invoke(prompt)
    return {"ruling": f"{r.winner}: {r.proclamation}"}


def next_round(state: CouncilState) -> Literal["twist", "monarch"]:
    return "monarch" if state["turn"] >= 2 * ROUNDS else "twist"


def assemble():
    active = [p for p in COUNCIL if not p.retired]
    a, b = active
    g = StateGraph(CouncilState)
    g.add_node(a.name, make_counsellor(a, b))
    g.add_node(b.name, make_counsellor(b, a))
    g.add_sequence([("chronicler", chronicler), ("forget", forget)])
    g.add_node("twist", twist)
    g.add_node("monarch", monarch)
    g.add_edge(START, a.name)
    g.add_edge(a.name, b.name)
    g.add_edge(b.name, "chronicler")
    g.add_conditional_edges("forget", next_round)
    g.add_edge("twist", a.name)
    g.set_finish_point("monarch")
    return g.compile()


council = assemble()
