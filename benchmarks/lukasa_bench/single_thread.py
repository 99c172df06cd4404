"""Limit numpy to one thread. Import this before numpy; on a busy machine two threads are slower and less even."""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
