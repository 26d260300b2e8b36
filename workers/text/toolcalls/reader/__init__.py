"""Readers of JSON and of Python-like literals that arrive in pieces.

Pure; imports nothing of ours. May be imported by the machinery, the formats and the answer room.
"""
