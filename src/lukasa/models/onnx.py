"""Sessions of ONNX Runtime: one thread, on the CPU, and nothing sent anywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

_TELEMETRY_VARIABLE = "ORT_DISABLE_TELEMETRY"


def open_onnx_session(model: bytes | Path) -> Any:
    """Open a session of a model. Raises ``ImportError`` if ONNX Runtime is not installed.

    When it is imported, ONNX Runtime writes an id of this machine into the user's cache and looks up the server that it
    sends reports to, unless a variable says otherwise. A value that the user has set stays.
    """
    if not os.environ.get(_TELEMETRY_VARIABLE):
        os.environ[_TELEMETRY_VARIABLE] = "1"
    import onnxruntime  # type: ignore[import-untyped]  # it ships no types

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
