from langchain_core.tools import tool

RUNBOOKS = {
    "db": {
        "owner": "You should page dana@example.com",
        "steps": "1. Look at pool saturation.\n2. Look at slow queries.\n3. Look at replication lag.",
    },
    "net": {"steps": "1. Look at packet loss between zones.\n2. Look at DNS errors."},
}


@tool
def lookup(runbook: str) -> str:
    """Read a runbook.

    Known runbooks are `db` and `net`.
    """
    try:
        return RUNBOOKS[runbook]["steps"]
    except KeyError:
        return "Unknown runbook."
