from langchain_openai import ChatOpenAI

fast, smart = ChatOpenAI(model="gpt-4o-mini"), ChatOpenAI(model="gpt-4o")
