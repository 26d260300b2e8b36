"""Samples, and their decoding from files and encoding to files: WAVE here, the rest by ffmpeg.

Imports no model. May be imported by recognition, speech and the audio worker's own modules.
"""
