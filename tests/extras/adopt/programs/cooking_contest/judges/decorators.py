import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def with_prefix(prefix: str) -> Callable[[Callable[P, str]], Callable[P, str]]:
    def deco(fn: Callable[P, str]) -> Callable[P, str]:
        @functools.wraps(fn)
        def inner(*args: P.args, **kwargs: P.kwargs) -> str:
            return prefix + "\n" + fn(*args, **kwargs)

        return inner

    return deco


def docprompt(fn):
    """The docstring of the function is its prompt."""
    template = inspect.getdoc(fn)

    @functools.wraps(fn)
    def inner(**kw):
        values = fn(**kw) or kw
        return template.format(**values)

    return inner


def node(name: str):
    def deco(fn):
        fn.node_name = name
        return fn

    return deco
