"""Search algorithms as ask and tell; open ``base.py`` first."""
