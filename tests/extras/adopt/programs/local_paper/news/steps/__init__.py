import importlib

ORDER = ["headline", "body", "check"]


def load():
    return {name: importlib.import_module(f".{name}", __package__).run for name in ORDER}
