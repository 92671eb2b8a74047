"""Judge of the simulation: keeps its own records of what truly happens, and compares the schedulers' reports with
them.
"""
