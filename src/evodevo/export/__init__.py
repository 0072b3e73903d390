"""Trained networks as files that work without evodevo.

Open ``base.py`` first. One file per format; ``folder.py`` writes an export, ``verify.py`` refuses one whose outputs
differ from its network's, ``model_card.py`` describes it.
"""
