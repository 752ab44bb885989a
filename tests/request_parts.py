"""Parts of a request: the instructions of whoever is asked, which stand below the task or in the system message."""

from selfwire.core.chat import SHARED_SYSTEM

BELOW_TASK, MESSAGES = "\n</task>\n\n", "\n\nWhat others sent you:\n<messages>\n"


def read_instructions(system: str, user: str) -> str:
    """The system message; of a request that begins with the task, what stands below it, without messages of others."""
    if not system.startswith(SHARED_SYSTEM):
        return system
    return user.partition(BELOW_TASK)[2].partition(MESSAGES)[0]


def read_messages(user: str) -> str:
    """What others sent an agent; "" if nothing."""
    return user.partition(MESSAGES)[2].partition("\n</messages>")[0]
