"""HERA: experience-guided orchestration and role-aware prompt evolution.

Li and Ramakrishnan, "Experience as a Compass: Multi-agent RAG with Evolving Orchestration and Agent Prompts".

    H = -sum p ln p, agents, F1 / |V|, self-loops, cycles, diameter       measures       (topology measures)
"""
