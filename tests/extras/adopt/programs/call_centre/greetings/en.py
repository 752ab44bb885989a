TEXT = "Greet in English."
