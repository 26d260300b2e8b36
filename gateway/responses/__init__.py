"""State and steps of the Responses API alone: turns that are stored, compaction of histories.

Imports dialects, generation and state. May be imported by routes and the application.
"""
