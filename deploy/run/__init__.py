"""Running a fleet: supervisors, their processes, what is resolved and checked before they start.

Imports the set-up and the starter models. May be imported by the command line and the generators.
"""
