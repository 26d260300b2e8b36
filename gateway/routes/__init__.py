"""HTTP handlers and the routes they serve.

May import every other room of the gateway. Imported by the application alone.
"""
