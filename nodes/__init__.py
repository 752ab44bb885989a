"""Agents by kind, and their prompts.

What any team can hold lives here, as it needs no more than an agent, a question and an inbox (`AgentRunner`): the
agent with tools, and the ensemble. Planners, judges and managers read the state of one method's algorithm, so each
stays with its method in `evolvers`.
"""
