"""Runners of agents by kind: the agent with tools, and the ensemble.

Runners in this room need only an agent, a question and an inbox (`AgentRunner`), so every team can use them. Planners,
judges and managers read the state of a method's algorithm, so they are in that method's folder in `evolvers`.
"""
