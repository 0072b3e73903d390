"""Source of networks as text: one file of plain PyTorch without evodevo, with what one network uses and nothing else.

Open ``sheet.py`` first; rows of tables add their classes in ``source``.
"""
