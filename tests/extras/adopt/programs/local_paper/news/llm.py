from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI

_model = None


def model():
    global _model
    if _model is None:
        _model = ChatOpenAI(model="gpt-4o-mini")
    return _model


def say(system, human, *, strict=False):
    if strict:
        system = f"{system}\n\nThis is the second try, so mend the slip."
    return model().invoke([SystemMessage(content=system), HumanMessage(content=human)]).content
