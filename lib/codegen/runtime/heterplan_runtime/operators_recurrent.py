"""LSTM, GRU and RNN as ONNX has them: PyTorch's own kernels for the plain cases, a loop over the
steps for peepholes, other activations, clipping and sequences of different lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["gru", "lstm", "module_gru", "module_lstm", "module_rnn", "rnn"]

Activation = Callable[[Tensor], Tensor]
State = tuple[Tensor, ...]

# name -> (function of x, alpha, beta; default alpha; default beta); None: takes no such number
_ACTIVATIONS: dict[str, tuple[Callable[..., Tensor], float | None, float | None]] = {
    "relu": (F.relu, None, None),
    "tanh": (torch.tanh, None, None),
    "sigmoid": (torch.sigmoid, None, None),
    "softsign": (F.softsign, None, None),
    "softplus": (F.softplus, None, None),
    "affine": (lambda x, alpha, beta: alpha * x + beta, 1.0, 0.0),
    "leakyrelu": (lambda x, alpha: F.leaky_relu(x, alpha), 0.01, None),
    "thresholdedrelu": (lambda x, alpha: F.threshold(x, alpha, 0.0), 1.0, None),
    "scaledtanh": (lambda x, alpha, beta: alpha * torch.tanh(beta * x), 1.0, 1.0),
    "hardsigmoid": (lambda x, alpha, beta: (alpha * x + beta).clamp(0.0, 1.0), 0.2, 0.5),
    "elu": (lambda x, alpha: F.elu(x, alpha), 1.0, None),
}


def _activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> list[Activation]:
    """The functions; those that take alpha or beta use up the given ones in order."""
    result: list[Activation] = []
    rest_alpha, rest_beta = list(alphas), list(betas)
    for name in names:
        function, alpha, beta = _ACTIVATIONS[name.lower()]
        numbers = []
        if alpha is not None:
            numbers.append(rest_alpha.pop(0) if rest_alpha else alpha)
        if beta is not None:
            numbers.append(rest_beta.pop(0) if rest_beta else beta)
        result.append(partial(_apply, function, numbers))
    return result


def _apply(function: Callable[..., Tensor], numbers: Sequence[float], x: Tensor) -> Tensor:
    return function(x, *numbers)


def _clip(x: Tensor, limit: float) -> Tensor:
    return x.clamp(-limit, limit) if limit else x


class _Direction:
    """Weights of one direction, and how one step of its cell goes."""

    def __init__(
        self,
        functions: list[Activation],
        weights: tuple[Tensor, Tensor, Tensor | None],
        peepholes: Tensor | None,
        clip: float,
    ) -> None:
        self.functions = functions
        self.w, self.r = weights[0], weights[1]
        both = weights[2]
        self.wb, self.rb = both.chunk(2) if both is not None else (None, None)
        self.peepholes = peepholes
        self.clip = clip


def _lstm_step(cell: _Direction, input_forget: bool, x: Tensor, state: State) -> State:
    f, g, h = cell.functions
    hidden, memory = state
    gates = F.linear(x, cell.w, cell.wb) + F.linear(hidden, cell.r, cell.rb)
    i, o, forget, c = gates.chunk(4, dim=-1)
    p_i, p_o, p_f = cell.peepholes.chunk(3) if cell.peepholes is not None else (None,) * 3
    i = i if p_i is None else i + p_i * memory
    i = f(_clip(i, cell.clip))
    forget = forget if p_f is None else forget + p_f * memory
    forget = 1 - i if input_forget else f(_clip(forget, cell.clip))
    memory = forget * memory + i * g(_clip(c, cell.clip))
    o = o if p_o is None else o + p_o * memory
    return f(_clip(o, cell.clip)) * h(memory), memory


def _gru_step(cell: _Direction, linear_before_reset: bool, x: Tensor, state: State) -> State:
    f, g = cell.functions
    (hidden,) = state
    from_x = F.linear(x, cell.w, cell.wb)
    from_h = F.linear(hidden, cell.r, cell.rb)
    size = hidden.shape[-1]
    z, r = f(_clip(from_x[..., : 2 * size] + from_h[..., : 2 * size], cell.clip)).chunk(2, dim=-1)
    if linear_before_reset:
        recurrent = r * from_h[..., 2 * size :]
    else:
        bias = cell.rb[2 * size :] if cell.rb is not None else None
        recurrent = F.linear(r * hidden, cell.r[2 * size :], bias)
    candidate = g(_clip(from_x[..., 2 * size :] + recurrent, cell.clip))
    return ((1 - z) * candidate + z * hidden,)


def _rnn_step(cell: _Direction, x: Tensor, state: State) -> State:
    (f,) = cell.functions
    gates = F.linear(x, cell.w, cell.wb) + F.linear(state[0], cell.r, cell.rb)
    return (f(_clip(gates, cell.clip)),)


def _reverse(x: Tensor, lengths: Tensor | None) -> Tensor:
    """The steps of each sequence backwards; what lies beyond its length stays."""
    if lengths is None:
        return x.flip(0)
    steps = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
    order = torch.where(steps < lengths, lengths - 1 - steps, steps)
    return x.gather(0, order.unsqueeze(-1).expand_as(x))


def _scan(
    step: Callable[[Tensor, State], State],
    x: Tensor,
    state: State,
    lengths: Tensor | None,
    backwards: bool,
) -> tuple[Tensor, State]:
    """Runs a cell over the steps of `x` (T x N x I); outputs beyond a length are zero."""
    outputs = []
    for index, value in enumerate(_reverse(x, lengths) if backwards else x):
        now = step(value, state)
        output = now[0]
        if lengths is not None:
            alive = (index < lengths).unsqueeze(-1)
            output = torch.where(alive, output, torch.zeros_like(output))
            now = tuple(torch.where(alive, a, b) for a, b in zip(now, state))
        outputs.append(output)
        state = now
    result = torch.stack(outputs)
    return (_reverse(result, lengths) if backwards else result), state


def _recurrent(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    sequence_lens: Tensor | None,
    initial: Sequence[Tensor | None],
    peepholes: Tensor | None,
    step: Callable[..., State],
    functions: list[Activation],
    direction: str,
    layout: int,
    clip: float,
) -> tuple[Tensor, ...]:
    """Y, and the last value of each state."""
    if layout:
        x = x.transpose(0, 1)
        initial = [None if state is None else state.transpose(0, 1) for state in initial]
    directions, _, size = r.shape
    zeros = x.new_zeros(directions, x.shape[1], size)
    start = [zeros if state is None else state for state in initial]
    lengths = None if sequence_lens is None else sequence_lens.to(torch.int64)
    each = len(functions) // directions
    results = []
    for d in range(directions):
        cell = _Direction(
            functions[d * each : (d + 1) * each],
            (w[d], r[d], None if b is None else b[d]),
            None if peepholes is None else peepholes[d],
            clip,
        )
        backwards = direction == "reverse" or d == 1
        state = tuple(value[d] for value in start)
        results.append(_scan(partial(step, cell), x, state, lengths, backwards))
    y = torch.stack([output for output, _ in results], dim=1)
    states = [torch.stack(values) for values in zip(*(state for _, state in results))]
    return _laid_out(y, states, layout)


def _laid_out(y: Tensor, states: Sequence[Tensor], layout: int) -> tuple[Tensor, ...]:
    if not layout:
        return (y, *states)
    return (y.permute(2, 0, 1, 3), *(state.transpose(0, 1) for state in states))


def _reordered(
    w: Tensor, r: Tensor, b: Tensor | None, order: Sequence[int]
) -> list[Tensor]:
    """The weights as PyTorch's kernels take them; `order` names ONNX's gates in PyTorch's order."""

    def ordered(weight: Tensor) -> Tensor:
        gates = weight.chunk(len(order))
        return torch.cat([gates[index] for index in order]) if len(order) > 1 else weight

    flat = []
    for d in range(w.shape[0]):
        flat += [ordered(w[d]), ordered(r[d])]
        if b is not None:
            flat += [ordered(half) for half in b[d].chunk(2)]
    return flat


def _kernel(
    kernel: Callable[..., tuple[Tensor, ...]],
    x: Tensor,
    weights: Sequence[Tensor],
    initial: Sequence[Tensor | None],
    direction: str,
    layout: int,
) -> tuple[Tensor, ...]:
    """Y and the last states by a kernel of PyTorch, with `weights` as a module has them."""
    directions = 2 if direction == "bidirectional" else 1
    if layout:
        x = x.transpose(0, 1)
        initial = [None if state is None else state.transpose(0, 1) for state in initial]
    if direction == "reverse":
        x = x.flip(0)
    zeros = x.new_zeros(directions, x.shape[1], weights[1].shape[1])
    states = [(zeros if state is None else state).contiguous() for state in initial]
    start = states if len(states) > 1 else states[0]
    biased = len(weights) == 4 * directions
    training = torch.is_grad_enabled()  # without, cuDNN keeps nothing for the backward pass
    y, *last = kernel(x, start, weights, biased, 1, 0.0, training, directions == 2, False)
    if direction == "reverse":
        y = y.flip(0)
    y = y.unflatten(-1, (directions, -1)).transpose(1, 2)
    return _laid_out(y, last, layout)


def module_lstm(
    x: Tensor,
    weights: Sequence[Tensor],
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    *,
    direction: str = "forward",
    layout: int = 0,
) -> tuple[Tensor, ...]:
    """Y, Y_h, Y_c of an LSTM with the parameters of a torch.nn.LSTM of one layer: for each
    direction weight_ih, weight_hh and, if the module has biases, bias_ih and bias_hh."""
    return _kernel(torch.lstm, x, weights, (initial_h, initial_c), direction, layout)


def module_gru(
    x: Tensor,
    weights: Sequence[Tensor],
    initial_h: Tensor | None = None,
    *,
    direction: str = "forward",
    layout: int = 0,
) -> tuple[Tensor, ...]:
    """Y, Y_h of a GRU with the parameters of a torch.nn.GRU of one layer, as module_lstm()."""
    return _kernel(torch.gru, x, weights, (initial_h,), direction, layout)


def module_rnn(
    x: Tensor,
    weights: Sequence[Tensor],
    initial_h: Tensor | None = None,
    *,
    activations: Sequence[str] = ("tanh",),
    direction: str = "forward",
    layout: int = 0,
) -> tuple[Tensor, ...]:
    """Y, Y_h of an RNN with the parameters of a torch.nn.RNN of one layer, as module_lstm()."""
    kernel = torch.rnn_relu if activations[0].lower() == "relu" else torch.rnn_tanh
    return _kernel(kernel, x, weights, (initial_h,), direction, layout)


def _is_plain(
    functions: Sequence[str], default: Sequence[str], lengths: Tensor | None, clip: float
) -> bool:
    names = [name.lower() for name in functions]
    return lengths is None and not clip and names == [*default] * (len(names) // len(default))


def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    activations: Sequence[str] = (),
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float = 0.0,
    direction: str = "forward",
    input_forget: int = 0,
    layout: int = 0,
) -> tuple[Tensor, ...]:
    """Y, Y_h, Y_c."""
    default = ("sigmoid", "tanh", "tanh")
    names = activations or default * w.shape[0]
    initial = (initial_h, initial_c)
    if p is None and not input_forget and _is_plain(names, default, sequence_lens, clip):
        return _kernel(torch.lstm, x, _reordered(w, r, b, (0, 2, 3, 1)), initial, direction, layout)
    functions = _activations(names, activation_alpha, activation_beta)

    def step(cell: _Direction, value: Tensor, state: State) -> State:
        return _lstm_step(cell, bool(input_forget), value, state)

    return _recurrent(
        x, w, r, b, sequence_lens, initial, p, step, functions, direction, layout, clip
    )


def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activations: Sequence[str] = (),
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float = 0.0,
    direction: str = "forward",
    layout: int = 0,
    linear_before_reset: int = 0,
) -> tuple[Tensor, ...]:
    """Y, Y_h."""
    default = ("sigmoid", "tanh")
    names = activations or default * w.shape[0]
    if linear_before_reset and _is_plain(names, default, sequence_lens, clip):
        weights = _reordered(w, r, b, (1, 0, 2))
        return _kernel(torch.gru, x, weights, (initial_h,), direction, layout)
    functions = _activations(names, activation_alpha, activation_beta)

    def step(cell: _Direction, value: Tensor, state: State) -> State:
        return _gru_step(cell, bool(linear_before_reset), value, state)

    return _recurrent(
        x, w, r, b, sequence_lens, (initial_h,), None, step, functions, direction, layout, clip
    )


def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activations: Sequence[str] = (),
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float = 0.0,
    direction: str = "forward",
    layout: int = 0,
) -> tuple[Tensor, ...]:
    """Y, Y_h."""
    names = activations or ("tanh",) * w.shape[0]
    for function, kernel in (("tanh", torch.rnn_tanh), ("relu", torch.rnn_relu)):
        if _is_plain(names, (function,), sequence_lens, clip):
            weights = _reordered(w, r, b, (0,))
            return _kernel(kernel, x, weights, (initial_h,), direction, layout)
    functions = _activations(names, activation_alpha, activation_beta)
    return _recurrent(
        x, w, r, b, sequence_lens, (initial_h,), None, _rnn_step, functions, direction, layout, clip
    )
