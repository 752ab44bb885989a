from textwrap import dedent

from jinja2 import Environment, StrictUndefined
from langchain_core.prompts import (
    ChatPromptTemplate,
    FewShotChatMessagePromptTemplate,
    HumanMessagePromptTemplate,
    MessagesPlaceholder,
    PromptTemplate,
    SystemMessagePromptTemplate,
)

env = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)

_examples = [
    {"wrong": "1/2 + 1/3 = 2/5", "hint": "Would half a pizza and a third of a pizza really be less than half a pizza?"},
    {"wrong": "(a+b)^2 = a^2 + b^2", "hint": "Try it with a = 1 and b = 1. What do you get on each side?"},
]

_shot = ChatPromptTemplate.from_messages([("human", "The pupil wrote: {wrong}"), ("ai", "{hint}")])

shots = FewShotChatMessagePromptTemplate(examples=_examples, example_prompt=_shot)

HINT = ChatPromptTemplate.from_messages(
    [
        SystemMessagePromptTemplate.from_template(
            "You are a {subject} tutor for year {year}. Never give the answer away; answer with one question."
        ),
        shots,
        MessagesPlaceholder("history", optional=True),
        HumanMessagePromptTemplate.from_template("The pupil wrote: {wrong}"),
    ]
).partial(subject="maths")

EXERCISE = env.from_string(
    dedent(
        """
        Make an exercise about {{ topic }} for year {{ year }}.
        {% for mistake in mistakes %}
        It should bring out this mistake: {{ mistake }}
        {% endfor %}
        {% if calculator %}
        A calculator is allowed.
        {% else %}
        Use numbers that can be handled in the head.
        {% endif %}
        """
    ).strip()
)

GRADE = PromptTemplate.from_template(
    "Exercise:\n{{exercise}}\n\nAnswer:\n{{answer}}\n\nGrade the answer.", template_format="mustache"
)

PRAISE = PromptTemplate(
    template="Praise the pupil for {thing} in {words} words.",
    input_variables=["thing"],
    partial_variables={"words": lambda: "eight"},
)

PARENT_LETTER = ChatPromptTemplate.from_template("Write a letter to the parents of {name} about {topic}.")
