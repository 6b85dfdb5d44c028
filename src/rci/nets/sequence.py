"""Recurrent networks over padded sequences."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from rci.nets.dense import affine


class Lstm(eqx.Module):
    """A long short-term memory layer. Input [B, T, features], output the hidden state at every step [B, T, H].

    The state at step t depends on the inputs up to t only, so padding behind an episode changes nothing before it.
    """

    input_weight: jax.Array  # [features, 4H], gates in the order input, forget, cell, output
    hidden_weight: jax.Array  # [H, 4H]
    bias: jax.Array  # [4H]

    def __init__(self, key: jax.Array, features: int, hidden: int) -> None:
        input_key, hidden_key = jax.random.split(key)
        bound = hidden**-0.5
        self.input_weight = jax.random.uniform(input_key, (features, 4 * hidden), minval=-bound, maxval=bound)
        self.hidden_weight = jax.random.uniform(hidden_key, (hidden, 4 * hidden), minval=-bound, maxval=bound)
        # A forget gate that starts open lets the first gradients reach the early steps.
        self.bias = jnp.zeros(4 * hidden).at[hidden : 2 * hidden].set(1.0)

    def __call__(self, x: jax.Array) -> jax.Array:
        # The input's share of the gates needs no recurrence: one matrix product for all steps.
        gates = jnp.swapaxes(affine(x, self.input_weight, self.bias), 0, 1)
        empty = jnp.zeros((x.shape[0], self.hidden_weight.shape[0]))

        def advance(carry: tuple[jax.Array, jax.Array], gate: jax.Array) -> tuple[Any, jax.Array]:
            hidden, cell = carry
            entry, forget, new, out = jnp.split(gate + hidden @ self.hidden_weight, 4, axis=-1)
            cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(entry) * jnp.tanh(new)
            hidden = jax.nn.sigmoid(out) * jnp.tanh(cell)
            return (hidden, cell), hidden

        _, hidden = jax.lax.scan(advance, (empty, empty), gates)
        return jnp.swapaxes(hidden, 0, 1)


class ReducedLstm(eqx.Module):
    """The cell of RUDDER's authors, which can only add: no forget gate, no output gate. Shapes as in Lstm.

    c[t] = c[t-1] + sigmoid(R h[t-1] + b_i) * tanh(W x[t] + b_c),  h[t] = tanh(c[t]). The gate sees only the past, the
    cell's input only the present, so what a step adds is not changed by what came before, only let in or kept out.
    """

    input_weight: jax.Array  # W, [features, H]
    input_bias: jax.Array  # b_c, [H]
    gate_weight: jax.Array  # R, [H, H]
    gate_bias: jax.Array  # b_i, [H]

    def __init__(self, key: jax.Array, features: int, hidden: int) -> None:
        input_key, gate_key = jax.random.split(key)
        bound = hidden**-0.5
        self.input_weight = jax.random.uniform(input_key, (features, hidden), minval=-bound, maxval=bound)
        self.gate_weight = jax.random.uniform(gate_key, (hidden, hidden), minval=-bound, maxval=bound)
        self.input_bias = jnp.zeros(hidden)
        # A gate that starts almost closed keeps the sum over a long episode small; the authors do the same.
        self.gate_bias = jnp.full(hidden, -3.0)

    def __call__(self, x: jax.Array) -> jax.Array:
        entry = jnp.swapaxes(jnp.tanh(affine(x, self.input_weight, self.input_bias)), 0, 1)
        empty = jnp.zeros((x.shape[0], self.gate_bias.shape[0]))

        def advance(cell: jax.Array, new: jax.Array) -> tuple[jax.Array, jax.Array]:
            gate = jax.nn.sigmoid(affine(jnp.tanh(cell), self.gate_weight, self.gate_bias))
            cell = cell + gate * new
            return cell, jnp.tanh(cell)

        _, hidden = jax.lax.scan(advance, empty, entry)
        return jnp.swapaxes(hidden, 0, 1)


class Gru(eqx.Module):
    """A gated recurrent unit. Input [B, T, features], output the hidden state at every step [B, T, H].

    h[t] = z * h[t-1] + (1 - z) * tanh(W x[t] + b + r * (U h[t-1])),  z and r sigmoids of x[t] and h[t-1]. The reset r
    acts behind the product with U, so that one product serves both gates and the candidate.
    """

    input_weight: jax.Array  # [features, 3H], in the order reset, update, candidate
    hidden_weight: jax.Array  # [H, 3H]
    bias: jax.Array  # [3H]

    def __init__(self, key: jax.Array, features: int, hidden: int) -> None:
        input_key, hidden_key = jax.random.split(key)
        bound = hidden**-0.5
        self.input_weight = jax.random.uniform(input_key, (features, 3 * hidden), minval=-bound, maxval=bound)
        self.hidden_weight = jax.random.uniform(hidden_key, (hidden, 3 * hidden), minval=-bound, maxval=bound)
        self.bias = jnp.zeros(3 * hidden)

    def __call__(self, x: jax.Array) -> jax.Array:
        entries = jnp.swapaxes(affine(x, self.input_weight, self.bias), 0, 1)
        empty = jnp.zeros((x.shape[0], self.hidden_weight.shape[0]))

        def advance(hidden: jax.Array, entry: jax.Array) -> tuple[jax.Array, jax.Array]:
            reset, keep, new = jnp.split(entry, 3, axis=-1)
            past_reset, past_keep, past_new = jnp.split(hidden @ self.hidden_weight, 3, axis=-1)
            candidate = jnp.tanh(new + jax.nn.sigmoid(reset + past_reset) * past_new)
            share = jax.nn.sigmoid(keep + past_keep)
            hidden = share * hidden + (1.0 - share) * candidate
            return hidden, hidden

        _, hidden = jax.lax.scan(advance, empty, entries)
        return jnp.swapaxes(hidden, 0, 1)
