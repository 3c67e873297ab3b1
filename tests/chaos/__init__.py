"""Chaos: real worker processes on one machine, faults on purpose, and a checker that judges afterwards what they did.

`python -m tests.chaos` runs stories (`stories.py`) against a fleet (`fleet.py`) and keeps everything that happened as JSON lines:
what each worker says it did (`noctaya.workers.audit`) and what the harness saw and did (`history.py`). `checker.py` is pure: it
knows those lines and nothing else, so that a run can be judged again from its folder.
"""
