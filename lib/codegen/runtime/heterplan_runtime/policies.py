"""Values that --balance accepts."""

from .predictors import PREDICTORS

POLICIES = ("plan", "even", "lb-bsp", *(f"lb-bsp-{name}" for name in (*PREDICTORS, "fit")))
REPLAY = "replay:"
