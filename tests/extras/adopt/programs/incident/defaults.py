TRIAGE_PROMPT = """You triage incidents of a web shop.
Today is {today}. Name the service that is down."""

REPORT_PROMPT = "You write incident reports. Address them to {audience}."
