"""An H-Model as one file of plain PyTorch. Open ``program.py`` first."""
