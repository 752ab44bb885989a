"""Methods whose rewirings are drawn at random: the control for edits that a model proposes."""
