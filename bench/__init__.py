"""The overhead of selfwire against hand-written code, with sizes and times."""
