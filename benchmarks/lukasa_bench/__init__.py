"""Benchmarks of Lukasa. Each compares Lukasa with a bare reference in the same run.

Numpy has one thread, on both sides: after a large product its other threads wait for the next one in a loop, and their
processor time would count for the side that answers then.
"""

from lukasa.config import limit_numpy_threads

limit_numpy_threads()
