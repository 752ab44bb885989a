"""What each measure rewards: a sentence that stands behind the feedback on an answer that is not right."""

from collections.abc import Mapping

from selfwire.core.task import Feedback

MEASURES: Mapping[str, str] = {
    "exact": "the answer must be the expected text and nothing else, character by character",
    "em": "exact match with the expected answer, apart from case, punctuation and articles",
    "final_em": "exact match of the line 'Answer:' with the expected answer, apart from case, punctuation and articles",
    "f1": (
        "word overlap (F1) of the answer with the expected one, apart from case, punctuation and articles; missing and "
        "surplus words both lower it"
    ),
    "final_f1": (
        "word overlap (F1) of the line 'Answer:' with the expected answer; missing and surplus words both lower it"
    ),
    "contains": "the answer must contain the expected one word for word; further words cost nothing",
    "numeric": "the last number in the answer must equal the expected one to six digits",
    "marked_number": "the number behind '####' must equal the expected one",
    "mathematics": "what is in \\boxed{} must be mathematically equal to the expected answer",
    "normal_form": (
        "exact match of the line 'Answer:' with the expected letter, word, number or text, apart from case and spaces"
    ),
    "unit_tests": "all hidden unit tests of the program must pass; a part of them counts nothing",
    "goal": "the simulator must reach the goal; a part of the way counts nothing",
    "tables": "the calls must leave the tables exactly as the request wants them",
}
"""By name; none says anything of a task's reference."""


def add_measure(feedback: Feedback, measure: str) -> Feedback:
    """The feedback with what its measure rewards, unless the task is solved."""
    if feedback.solved:
        return feedback
    return feedback.replace(text=f"{feedback.text} Measured by: {MEASURES.get(measure, measure).rstrip('.')}.")
