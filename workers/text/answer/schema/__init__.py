"""JSON schemas as the grammar engine enforces them: rewritten, or refused by keyword.

Pure. Imports `workers.text.toolcalls` for JSON text and references, and nothing of the answer.
"""
