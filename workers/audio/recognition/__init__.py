"""Speech recognition: Whisper, its windows of half a minute, and transcripts.

Imports sound. May be imported by the audio worker's own modules.
"""
