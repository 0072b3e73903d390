"""The driver of a multitask system: agents that extend it for ever, and never damage what is there.

Open ``system.py`` first. Words: ``agent.py``. One cycle of one agent: ``cycle.py``. Which cycles when: ``schedule.py``.
"""
