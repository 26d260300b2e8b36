"""Speech to text: Whisper, its windows of half a minute, and what becomes a transcript.

May be imported by the audio worker's own modules.
"""
