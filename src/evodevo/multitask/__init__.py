"""The driver of a multitask system: agents that extend it for ever, and never damage what is there.

Open ``core.py`` first. Words: ``base.py``. One cycle of one agent: ``cycle.py``. Which cycles when: ``schedule.py``.
"""
