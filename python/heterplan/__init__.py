"""heterplan: plans and compiles the training of neural networks on unequal devices.

    import heterplan

    plan = heterplan.compile(module, "local-cpu", inputs=(torch.zeros(2, 3, 224, 224),), batch=64)
    model = plan.module()        # for a loop of your own
    plan.run(steps=10)           # or let its ranks train

Everything is done by the program `heterplan`, which the wheel brings along; docs/python.md says how. Planning
needs no PyTorch; modules, export and run do.
"""

from .compiling import compile, machine
from .errors import CheckFailed, Diagnostic, HeterplanError, HeterplanWarning, Infeasible
from .exporting import export
from .plans import Check, Device, Plan, Replica, Stage

__all__ = [
    "Check", "CheckFailed", "Device", "Diagnostic", "HeterplanError", "HeterplanWarning", "Infeasible",
    "Plan", "Replica", "Stage", "compile", "export", "machine",
]  # fmt: skip
