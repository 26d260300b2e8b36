"""The audio worker: transcribes recordings and synthesizes speech.

Whisper and Kokoro share one model thread and take turns step by step.
"""
