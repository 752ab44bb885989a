"""The trained router at work: heads from saved weights, routing in a team, learning, training, and its choices."""
