import textwrap

STYLE = "Use plain words."
RESEARCHER = f"You are a researcher. {STYLE}"
SUMMARISER = textwrap.dedent(
    """
    Summarise the notes below.

    Notes:
    {notes}
    """
).strip()
OTHER = "This one is used by nobody."
