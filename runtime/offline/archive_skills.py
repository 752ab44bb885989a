"""The skills for questions about documents, and the instructions that activate them."""

from selfwire.runtime.offline.skills import Skill

SKILLS: tuple[Skill, ...] = (
    Skill(
        name="look up",
        patterns=(
            r"\blook(?:ing)? (?:things |it |facts |names |them |each )?up\b",
            r"\b(?:run|use|call|query|consult)\w*\b[^.]{0,30}\bsearch",
            r"\bsearch(?:es|ing)? (?:for|the|through|in)\b",
            r"\bretriev(?:e|es|ing) ",
            r"\b(?:fetch|gather|find|collect)\w* (?:the |relevant |all |any )*"
            r"(?:passages|documents|sources|material|pages)",
            r"\bsearch (?:quer(?:y|ies)|terms?)\b",
            r"\b(?:check|consult)\w* (?:the |our )?(?:archive|corpus|documents|sources)\b",
            r"\bby searching\b|\bquery\w* the (?:knowledge base|corpus|index|archive)\b",
            r"\b(?:do|carry out) (?:the |some )?research\b|\blook for (?:documents|passages|sources|pages)\b",
        ),
        remark="Nothing had to be looked up here.",
    ),
    Skill(
        name="read",
        patterns=(
            r"\bread(?:s|ing)? (?:the|through|each|every|what|closely|carefully|all|passages|them|it)\b",
            r"\bextract\w*\b",
            r"\b(?:pull|pick|lift|draw|take|quote|copy)\w* (?:out )?(?:the |every |exact |single |one |that |each )*"
            r"(?:facts?|values?|names?|dates?|figures?|details?)\b",
            r"\bstudy (?:the|each|every) (?:passage|document|text)",
            r"\b(?:identify|find|locate)\w*\b[^.]{0,20}\b(?:sentence|line)\b",
            r"\b(?:list|note|state|record)\w* (?:down )?(?:the |each |every |all |key |relevant )*facts?\b",
            r"\b(?:quote|note down|scan|comb through)\b[^.]{0,30}"
            r"\b(?:passages?|documents?|texts?|phrases?|dates?|names?|values?)\b",
            r"\bthe reader of\b|\byou are (?:a|the) reader\b",
        ),
        remark="There was no passage to read closely.",
    ),
    Skill(
        name="split",
        patterns=(
            r"\bsplit(?:s|ting)?\b",
            r"\bdecompos\w+",
            r"\bsub-?(?:questions?|problems?|queries)\b",
            r"\b(?:break|divid|cut|tak|separat|pars|untangl|unpack|unravel)\w*\b[^.]{0,50}"
            r"\b(?:down|up|apart|into|parts?|pieces?|questions|steps|hops)\b",
            r"\b(?:smaller|simpler|simple|single-hop|elementary|separate) (?:questions|parts|pieces|steps)",
            r"\bone (?:hop|fact|question) (?:at a time|each|per)",
            r"\bhops\b|\bintermediate (?:entit(?:y|ies)|steps?|results?|facts?|questions?)",
            r"\b(?:must|has to|have to|needs? to) be (?:found|known|answered|settled) first",
            r"\b(?:facts?|things?|questions?) (?:is|are|comes?) needed first\b",
        ),
        remark="This did not seem to come apart into questions.",
    ),
    Skill(
        name="compare",
        patterns=(
            r"\bcompar(?:e|es|ing|ison)\b(?! notes)",
            r"\bwhich (?:one |of (?:the |them )?(?:two )?)?(?:is|was|came|comes|has) (?:the )?"
            r"(?:earlier|later|larger|bigger|first|greater|more)",
            r"\b(?:weigh|set|put|hold|place)\w*\b[^.]{0,40}"
            r"\b(?:side by side|against (?:each other|one another|the other))",
            r"\b(?:larger|greater|bigger|earlier|later|older) of (?:the |these )?two",
            r"\brank\w* (?:the )?(?:two|candidates|values|options)",
            r"\bwhich of (?:the |these )?two\b",
            r"\b(?:pick|choose|name|select|check)\w*\b[^.]{0,40}"
            r"\b(?:larger|smaller|greater|earlier|later|higher|lower|older)\b",
            r"\bcomparisons\b|\bbetween (?:the )?two (?:options|values|candidates|figures)\b",
        ),
        remark="There were no two values to set against each other.",
    ),
    Skill(
        name="intersect",
        patterns=(
            r"\bintersect\w*",
            r"\bin common\b|\bcommon to\b|\bshared by\b|\bcommon (?:names?|members?|elements?|entries)",
            r"\b(?:appear|occur|stand|is|are|found|present|belong)\w* (?:in|on|to) (?:both|all)\b",
            r"\boverlap (?:of|between) (?:the )?(?:two )?(?:lists|sets|groups)",
            r"\bon both lists\b|\bin both lists\b|\bboth (?:lists|groups|sets)\b",
        ),
        remark="There were no two lists with common names.",
    ),
    Skill(
        name="overlap",
        patterns=(
            r"\boverlap\w*\b[^.]{0,40}\b(?:years?|periods?|time|dates?|intervals?|spans?)",
            r"\b(?:years?|periods?|time|dates?|intervals?|spans?)\b[^.]{0,40}\boverlap",
            r"\btimelines?\b|\bchronolog\w+",
            r"\b(?:same time|simultaneous\w*|coincid\w+|concurrent\w*)\b",
            r"\b(?:later|latest) start\b|\b(?:earlier|earliest) end\b",
            r"\b(?:align|lay)\w*\b[^.]{0,30}\b(?:periods?|intervals?|spans?|ranges?)\b",
            r"\byears (?:that )?they (?:both )?share",
            r"\btime intervals?\b|\bdate arithmetic\b|\bshared years\b",
            r"\b(?:tenures?|terms|stints?|jobs|employments?)\b[^.]{0,30}\boverlap",
        ),
        remark="There were no two periods to lay over each other.",
    ),
    Skill(
        name="count",
        patterns=(
            r"\bcount(?:s|ing)?\b(?! on\b)",
            r"\btally\w*",
            r"\bnumber of (?:distinct|different|unique|entries|names|items|people|members)",
            r"\bhow many (?:distinct|different|unique|entries|names|items|people|members|there)",
            r"\b(?:add|total) up\b|\bduplicates?\b|\benumerat\w+",
            r"\bsize of (?:the )?(?:union|sets?|groups?|lists?)",
        ),
        remark="There was nothing to count.",
    ),
)
