"""Keeps products of matrices to one thread, if imported before numpy: on a busy machine two are slower, and uneven."""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
