"""The trained router: a routing head that draws agents for a state, and REINFORCE to train it (EvoMAS, Sec. 3.2, 3.3).

EvoMAS chooses a stage's layers with it; any team can choose a node's successors with it.
"""
