from functools import lru_cache

from langchain_openai import ChatOpenAI

MODELS = {"default": "gpt-4o", "fast": "gpt-4o-mini"}


@lru_cache(maxsize=None)
def get_model(kind: str = "default") -> ChatOpenAI:
    return ChatOpenAI(model=MODELS[kind], max_retries=0)
