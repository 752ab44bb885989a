"""The outer evolution: begin -> rollout -> evolve -> gate -> save per iteration, then one look at the test split."""
