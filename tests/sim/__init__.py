"""The whole fleet in virtual time: the production cores of every worker under a dull shell, and everything that can go wrong.

`python -m tests.sim --help`; `schedule.py` makes the faults of a seed, `world.py` lets them happen, `checker.py` holds the
invariants after every step, `mutants.py` switches each safety rule off. One seed is one schedule, always the same.
"""
