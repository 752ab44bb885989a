from langchain_openai import ChatOpenAI

fast, slow = (ChatOpenAI(model=name) for name in ("gpt-4o-mini", "gpt-4o"))
