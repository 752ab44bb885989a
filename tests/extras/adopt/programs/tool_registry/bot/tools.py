from bot.registry import register, skill


@register
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@register
def lookup(word: str) -> str:
    """Look up a word in the dictionary."""
    return f"{word} is not in the dictionary."


skill("poem", "Poems have four lines.")
skill("mail", "Mails end with a greeting.")
