"""From a request to token ids: chat templates, conversations, gaps to fill.

Imports the tags of reasoning. May be imported by the worker's own modules.
"""
