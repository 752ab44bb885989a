import os

os.environ.setdefault("LANGSMITH_TRACING", "false")
