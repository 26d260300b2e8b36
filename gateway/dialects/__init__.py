"""Wire formats: pure functions between JSON and the protobuf messages. No dialect imports another.

Imports nothing of HTTP. May be imported by responses, routes and the application.
"""
