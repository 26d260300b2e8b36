"""Makes token ids of a request's prompt: chat templates, conversations, infill.

Imports the reasoning tags and tool-call formats. May be imported by the worker's own modules.
"""
