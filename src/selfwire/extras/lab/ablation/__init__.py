"""Ablation studies: a method with parts switched off, evolved and evaluated over seeds."""
