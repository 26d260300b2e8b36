"""Turning registry packages into models that workers load.

Imports of deploy only deploy/setup/progress.py. May be imported by the rooms that run a fleet.
"""
