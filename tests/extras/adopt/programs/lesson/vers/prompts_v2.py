from textwrap import dedent

PLAN = dedent("""\
    Plan the lesson.
      - Begin with a question.
    Topic: {topic}
""")
GRADE = "Grade the homework kindly."
SECRET = "A text that no node uses."
