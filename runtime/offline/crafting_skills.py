"""The skills for crafting, and the instructions that activate them."""

from selfwire.runtime.offline.skills import Skill

SKILLS: tuple[Skill, ...] = (
    Skill(
        name="plan",
        patterns=(
            r"\b(?:mak|draw|draft|writ|work|set|build|extend|deepen|grow|develop|sketch|devis)\w*\b[^.]{0,25}"
            r"\b(?:plans?|crafting tree|recipe tree)\b",
            r"\bplanner\b|^plan\b|\bplan (?:the|what|which|how|backwards?|ahead)\b",
            r"\bexpand\w*\b[^.]{0,50}\b(?:recipes?|items?|ingredients?|needs?|level|plan|target)\b",
            r"\b(?:prerequisites?|intermediate (?:items?|products?|goals?))\b",
            r"\b(?:choos|pick|select|find|decid)\w*\b[^.]{0,30}\brecipes?\b",
            r"\bingredients?\b[^.]{0,40}\b(?:themselves|in turn|made of|come from|crafted from)\b",
            r"\bwhat\b[^.]{0,30}\b(?:made|crafted|built|prepared)\b[^.]{0,15}\b(?:first|before|beforehand)\b",
            r"\bback(?:wards?)? from the (?:target|goal|item|wanted)",
        ),
        remark="First one would do one thing, then the next.",
    ),
    Skill(
        name="inventory",
        patterns=(
            r"\b(?:check|match|tak|audit|reconcil|tally|verif|inspect|list|not|compar|measur|weigh|subtract)\w*\b"
            r"[^.]{0,50}\b(?:inventory|in stock|the stock|stocks?|at hand|on hand|in hand|supplies|available)\b",
            r"\bstock-?(?:tak|keep|check)\w*|\bquartermaster\b|\bstorekeeper\b",
            r"\b(?:how much|how many|what) (?:of (?:it|each|them) )?(?:is|are) (?:left|there|available|lacking)",
            r"\b(?:falls? short|short of|running out|runs out|run out|shortages?|shortfalls?)\b",
        ),
        remark="Everything that was handed over is still there.",
    ),
    Skill(
        name="act",
        patterns=(
            r"\b(?:turn|convert|translat|carr|execut|writ|spell|put|express|render|lay|give|produc|list)\w*\b[^.]{0,70}"
            r"\b(?:moves|actions|commands|move and smelt|slots?)\b",
            r"\bmove (?:and|or|/) smelt\b|\bmoves? and smelts?\b",
            r"\bhands-on\b|\b(?:at|operate) the (?:crafting )?table\b",
            r"\bslot (?:by slot|numbers?)\b|\bfrom which slot|\bwhich slot",
            r"\bcarry (?:it|the plan|a plan|this|them) out\b|\bcarry out\b|\bplan into (?:practice|effect|action)\b",
            r"\bexecut\w* (?:the|a|that|what)\b",
        ),
        remark="I am ready to carry it out.",
    ),
    Skill(
        name="feasibility",
        patterns=(
            r"\bfeasib\w+|\binfeasib\w+|\bunfeasib\w+",
            r"\b(?:say|declar|decid|judg|tell|report|rul|conclud|admit|announc|call|answer|state)\w*\b[^.]{0,60}"
            r"\bimpossible\b",
            r"\b(?:cannot|can't|can not|could not) (?:possibly )?(?:be )?"
            r"(?:made|crafted|done|reached|built|obtained|finished|completed|had)\b",
            r"\bwhether\b[^.]{0,60}\b(?:possible|can be|could be|reachable|doable|achievable|attainable)\b",
            r"\b(?:nobody|no one|no-one) (?:can|could)\b|\bno way to\b",
            r"\b(?:dead ends?|out of reach|unreachable|unattainable|hopeless|not attainable|give up)\b",
        ),
        remark="It may or may not be possible.",
    ),
)
