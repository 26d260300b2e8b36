"""Readers of JSON and Python-like literals in text that arrives in pieces.

Pure; imports nothing of ours. May be imported by the machinery, the formats and the answer room.
"""
