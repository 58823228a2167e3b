"""Samplers as stages that chain: flow, SDE, Markov chains."""
