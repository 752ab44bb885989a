from typing import TypedDict


class State(TypedDict):
    question: str
    answer: str
    language: str
