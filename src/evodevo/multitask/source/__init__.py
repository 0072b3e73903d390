"""A path of a multitask system as one file of plain PyTorch. Open ``exporter.py`` first."""
