"""The audio worker: recordings in, text out, and the other way round.

Two models share one lane: what hears and what speaks take turns step by step.
"""
