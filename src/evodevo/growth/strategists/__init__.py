"""Strategists: the policies that decide how a network changes while it trains; open ``base.py`` first."""
