"""recurrence: one layer of LSTM, GRU or RNN in one direction, on packed rows. Inputs are x (N, I), h0, c0 for LSTM, the
weights weight_ih, weight_hh, bias_ih and bias_hh where there are biases, and weight_hr where there is a projection."""

import torch


def recurrence(*inputs, cell, reverse, batch_sizes, bias, projected):
    x, h0, *rest = inputs
    c0 = rest.pop(0) if cell == "lstm" else None
    # PyTorch computes the second direction only beside the first: both get the same weights.
    directions = 2 if reverse else 1
    states = tuple(s.expand(directions, *s.shape) for s in (h0, c0) if s is not None)
    function = {
        "lstm": torch._VF.lstm,
        "gru": torch._VF.gru,
        "rnn_tanh": torch._VF.rnn_tanh,
        "rnn_relu": torch._VF.rnn_relu,
    }[cell]
    sizes = torch.tensor(batch_sizes)
    state = states if cell == "lstm" else states[0]
    y, *last = function(x, sizes, state, rest * directions, bias, 1, 0.0, False, reverse)
    width = h0.shape[1]
    return (y[:, width:] if reverse else y, *(s[-1] for s in last))


def record(family):
    gates = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}

    def case(name, cell, batch_sizes, inputs=2, hidden=3, reverse=False, bias=True, projection=0):
        width, rows = projection or hidden, gates[cell] * hidden
        operands = [family.normal(sum(batch_sizes), inputs), family.normal(batch_sizes[0], width)]
        if cell == "lstm":
            operands.append(family.normal(batch_sizes[0], hidden))
        operands += [family.normal(rows, inputs) / 2, family.normal(rows, width) / 2]
        if bias:
            operands += [family.normal(rows), family.normal(rows)]
        if projection:
            operands.append(family.normal(projection, hidden))
        family.case(
            "recurrence",
            name,
            recurrence,
            operands,
            cell=cell,
            reverse=reverse,
            batch_sizes=batch_sizes,
            bias=bias,
            projected=projection > 0,
        )

    for cell in gates:
        case(cell, cell, [2, 2, 2])
        case(f"{cell}_reverse", cell, [2, 2, 2], reverse=True)
        case(f"{cell}_packed", cell, [3, 2, 1])
        case(f"{cell}_packed_reverse", cell, [3, 1, 1], reverse=True)
        case(f"{cell}_no_bias", cell, [1, 1], bias=False)
        case(f"{cell}_one_step", cell, [2])
        # Few enough elements for finite differences, also of second derivatives.
        case(f"{cell}_small", cell, [1, 1, 1], inputs=1, hidden=1)
        case(f"{cell}_small_packed", cell, [2, 1], inputs=1, hidden=2, bias=False)
        case(f"{cell}_small_reverse", cell, [2, 1], inputs=1, hidden=2, bias=False, reverse=True)
    case("lstm_wide", "lstm", [2, 1], inputs=3, hidden=17)  # more than one vector of features
    case("gru_wide", "gru", [5, 5], inputs=1, hidden=9)
    case("lstm_projected", "lstm", [2, 2], projection=2)
    case("lstm_projected_packed", "lstm", [2, 1, 1], projection=1, reverse=True)
    case("lstm_small_projected_packed", "lstm", [2, 1], inputs=1, hidden=2, projection=1, bias=False)
    case("lstm_small_projected", "lstm", [1, 1], inputs=1, hidden=2, projection=1)
