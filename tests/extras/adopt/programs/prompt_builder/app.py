from datetime import date

from langchain.chat_models import init_chat_model
from langgraph.graph import MessagesState, StateGraph

from prompting import PromptBuilder

llm = init_chat_model("openai:gpt-5-mini", temperature=0)
RULES = ["Never give medical advice.", "Quote at most two sentences."]


def system_prompt(formal: bool) -> str:
    builder = PromptBuilder("You answer letters of readers.").section("Style", "Write like a newspaper.")
    for rule in RULES:
        builder.rule(rule)
    if formal:
        builder.rule("Use formal address.")
    return builder.build()


def footer(lang: str) -> str:
    match lang:
        case "de":
            return "Unterschreibe als die Redaktion."
        case "en":
            return "Sign as the editors."
        case _:
            return "Do not sign."


def reply(state: MessagesState):
    lines = ["The letter came today.", f"The date is {date.today():%Y}."]
    lines.append(footer("en"))
    if len(state["messages"]) > 1:
        lines.extend(["The reader has written before.", "Refer to the first letter."])
    system = system_prompt(formal=True) + "\n\n" + " ".join(lines)
    return {"messages": [llm.invoke([("system", system), *state["messages"]])]}


workflow = StateGraph(MessagesState)
workflow.add_node("reply", reply)
workflow.set_entry_point("reply")
workflow.set_finish_point("reply")
graph = workflow.compile()
