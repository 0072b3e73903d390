"""Who decides how a zoo changes while it trains; open ``base.py`` first."""
