"""Trained networks as files that work without evodevo.

Open ``base.py`` first. One file per format; ``folder.py`` puts an export together, ``verify.py`` refuses what does not
answer as its network does, ``model_card.py`` says what it is.
"""
