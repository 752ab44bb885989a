"""The outer evolution: begin -> rollout -> evolve -> gate -> save per iteration, then one look at the test split.

A thin LangGraph around a `Method`: one superstep per phase, references and plain numbers in its state, every call in
the journal, a version in the library after every iteration.
"""
