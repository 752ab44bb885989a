"""Which mechanism does how much: a method, its ablations, no gate and random edits, over seeds."""
