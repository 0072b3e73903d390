"""Searches compared with each other (STAR, section 5.1, A.4): algorithms, their settings, scales of synthesis."""
