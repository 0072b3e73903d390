"""Suffixes of the files that are read as images."""

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
SOUND_SUFFIXES = (".wav",)
"""Of sounds, which are read as pictures of their frequencies; see ``tasks/sounds``."""
IMAGE_SUFFIXES = PICTURE_SUFFIXES + SOUND_SUFFIXES
OTHER_SOUNDS = (".flac", ".mp3", ".ogg", ".m4a", ".aac", ".opus", ".aiff")
"""Of sounds that nothing here decodes."""
