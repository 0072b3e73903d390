"""Exports of trained models: those of one run, in any format of ``MODEL_EXPORTERS``.

Open ``base.py`` first; ``write.py`` makes the folder, ``verify.py`` asks it in a fresh process.
"""
