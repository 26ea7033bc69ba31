"""Functions that model.py calls, as `ops.name(...)`, for ONNX operators that are no single PyTorch
function.

Each function takes the inputs of its operator in ONNX's order, None where one is left out, and its
attributes as keywords with ONNX's defaults. Gradients flow wherever ONNX's operator has any.
"""

from .operators_control import *  # noqa: F403
from .operators_image import *  # noqa: F403
from .operators_microsoft import *  # noqa: F403
from .operators_neural import *  # noqa: F403
from .operators_quantised import *  # noqa: F403
from .operators_random import *  # noqa: F403
from .operators_recurrent import *  # noqa: F403
from .operators_reduction import *  # noqa: F403
from .operators_regions import *  # noqa: F403
from .operators_selection import *  # noqa: F403
from .operators_shape import *  # noqa: F403
from .operators_signal import *  # noqa: F403
from .operators_training import *  # noqa: F403
