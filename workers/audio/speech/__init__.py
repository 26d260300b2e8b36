"""Text to speech: sentences, phonemes, Kokoro, and the samples that come of them.

May be imported by the audio worker's own modules.
"""
