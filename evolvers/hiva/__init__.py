"""HiVA: semantic-topological evolution with knowledge-aware bandit routing."""
