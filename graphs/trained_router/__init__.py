"""The trained router at work, for a team of ours (`RoutedTeam`) and for a StateGraph of yours (`LearnedRouter`)."""

from selfwire.graphs.trained_router.learned_router import LearnedRouter
from selfwire.graphs.trained_router.routed_team import RoutedTeam

__all__ = ["LearnedRouter", "RoutedTeam"]
