"""Replicas of stages: balanced, connected and resumed from the processes that use them."""
