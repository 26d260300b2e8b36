"""The words that a text is spoken as: numbers, signs, abbreviations and Markdown written out.

Nothing of ours is imported but errors. May be imported by the audio worker's own modules.
"""
