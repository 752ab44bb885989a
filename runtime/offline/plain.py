"""Skills without use for any family: they sound helpful, take a place and write a note."""

from selfwire.runtime.offline.skills import Skill

SKILLS: tuple[Skill, ...] = (
    Skill(
        name="brainstorm",
        patterns=(
            r"brainstorm",
            r"(?:many|several|different|wild|fresh|creative|unusual) (?:ideas|angles|approaches)",
            r"\bideas\b.{0,30}\b(?:quantity|judging|judgement|freely|come to mind)",
            r"creativ(?:e|ity|ely)",
        ),
        remark="Idea: there may be more than one way to look at this.",
    ),
    Skill(
        name="debate",
        patterns=(
            r"\bdebate",
            r"devil'?s advocate",
            r"(?:argue|arguments?) (?:for|against|both)",
            r"both sides|opposing (?:view|side|position)",
            r"counter-?argument",
        ),
        remark="On the one hand this seems plausible; on the other hand one might object.",
    ),
    Skill(
        name="tone",
        patterns=(
            r"\btone\b",
            r"(?:polite|friendly|warm|courteous|cheerful)\w*",
            r"sound (?:kind|confident|professional|natural)",
            r"empath\w+",
        ),
        remark="I have kept the wording friendly and professional.",
    ),
    Skill(
        name="formatting",
        patterns=(
            r"\bmarkdown\b",
            r"bullet(?:ed)? (?:points?|lists?)",
            r"\bheadings?\b",
            r"(?:tidy|neat|clean|consistent)\w* (?:layout|format\w*|structure)",
            r"\b(?:lay ?out|format)\b.{0,30}\b(?:neatly|tidily|cleanly|tables?|sections)",
        ),
        remark="The notes are laid out in a consistent way.",
    ),
    Skill(
        name="summarise",
        patterns=(
            r"summar(?:y|ies|ise|ize)\w*",
            r"\bcondense",
            r"shorten (?:the|what|every)",
            r"in (?:a few|fewer) words",
            r"\bgist\b",
        ),
        remark="In short: work on the task is under way.",
    ),
    Skill(
        name="translate",
        patterns=(
            r"translat\w+",
            r"(?:render|put|restate)\b.{0,40}\b(?:french|german|spanish|language|english)",
            r"(?:french|german|spanish) (?:version|wording)",
            r"bilingual",
        ),
        remark="No passage here needed translation.",
    ),
    Skill(
        name="storytelling",
        patterns=(
            r"\bstor(?:y|ies|ytell\w*)\b",
            r"narrat\w+",
            r"\banalog(?:y|ies)\b",
            r"\bmetaphors?\b",
            r"vivid\w* (?:picture|scene|example|image)",
        ),
        remark="Picture someone who goes through this task step by step.",
    ),
)
