"""Turning registry packages into models that workers load.

Imports no other room of deploy. May be imported by the rooms that run and set up.
"""
