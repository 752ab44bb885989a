from app.core import settings

from .common import ask, with_fallback
from .state import Case

prompts = settings.prompts


async def planner(case: Case) -> dict:
    system = prompts.planner.format(max_steps=settings.max_steps)
    text = await ask(system, f"Case: {case['case']}")
    return {"steps": [line for line in text.splitlines() if line.strip()][: settings.max_steps]}


@with_fallback("The worker took too long.")
async def worker(case: Case) -> dict:
    done = "\n".join(case.get("log", []))
    before = f"Done so far:\n{done}" if done else "Nothing is done yet."
    report = await ask(prompts.worker, f"Step: {case['steps'][0]}", before)
    return {"report": report, "steps": case["steps"][1:], "log": [*case.get("log", []), report]}


async def judge(case: Case) -> dict:
    verdict = await ask(settings.prompts.judge, case["report"])
    return {"passed": verdict.strip().upper() == "PASS"}
