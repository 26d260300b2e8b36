"""What only the Responses API needs: the turn that is kept, and the compaction of its history.

Imports dialects, generation and state. May be imported by routes and the application.
"""
