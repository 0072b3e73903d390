"""Sounds as pictures: readers and networks of images take them as they are."""
