"""Speech synthesis: the splitting of texts, phonemes, and Kokoro.

Imports sound. May be imported by the audio worker's own modules.
"""
