from langchain_openai import ChatOpenAI

MODEL_NAME = "gpt-4o"


def get_llm(temperature: float = 0.0):
    return ChatOpenAI(model=MODEL_NAME, temperature=temperature)
