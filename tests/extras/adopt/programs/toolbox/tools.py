from langchain_core.tools import StructuredTool, tool


@tool(parse_docstring=True)
def square(x: float) -> float:
    """Square a number.

    Args:
        x: the number.
    """
    return x * x


def root(x: float) -> str:
    """Take a root."""
    if x < 0:
        return "There is no root of a negative number."
    return str(x**0.5)


def make_tools():
    found = []
    found.append(StructuredTool.from_function(root))
    return found


MATH_TOOLS = [square]
