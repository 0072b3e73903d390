"""A zoo of modules as one file of plain PyTorch. Open ``program.py`` first."""
