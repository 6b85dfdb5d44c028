"""Small constrained decision problems, unrolled into every possible episode and solved exactly.

A history is s0 a0 s1 ... st, and a policy may look at all of it. There are finitely many histories, so
everything that the theory speaks about is a vector or a matrix here:

- a *choice* is a history with the action taken there, which is also exactly what a sequence model over (s, a)
  pairs has read when it predicts at that step;
- an *edge* is a choice with the state that followed;
- a policy is a table [histories, actions], its occupancy measure a vector over choices, and the set of all
  occupancy measures a polytope (`flow`): the best policy under a budget is a linear program (`solve`).

An episode ends at the horizon or with its first unsafe transition, whichever comes first; nothing is earned
and nothing is charged after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from rci.redistribution.conserve import Conservation, conserve, difference

Array = np.ndarray
Severity = Callable[[tuple[int, ...], tuple[int, ...]], float]


@dataclass(frozen=True)
class CMDP:
    """A finite problem with a labeler. The labeler may judge by the whole history."""

    start: Array  # [S] chances of the first state
    move: Array  # [S, A, S] chances of the next state
    reward: Array  # [S, A]
    severity: Severity  # (s0..s[t+1], a0..at) -> 0 if that last transition is safe, else the episodic cost
    horizon: int


@dataclass(frozen=True)
class Tree:
    """Every episode of a problem that has a positive chance, as padded blocks. N episodes, horizon H."""

    state: Array  # [N, H + 1]
    action: Array  # [N, H]
    mask: Array  # [N, H] true where the episode has a step
    cost: Array  # [N] episodic cost
    chance: Array  # [N] the environment's part of the episode's probability
    history: Array  # [N, H] index of the history at which step t is decided
    choice: Array  # [N, H] = history * A + action
    edge: Array  # [N, H] index of choice and next state
    edge_choice: Array  # [E]
    edge_chance: Array  # [E]
    history_edge: Array  # [histories] the edge that led here, -1 for a first state
    history_start: Array  # [histories] chance of being the first state, 0 elsewhere
    history_state: Array  # [histories] the state in which the decision is taken
    history_time: Array  # [histories]
    actions: int

    @property
    def last(self) -> Array:
        """[N] index of each episode's last step."""
        return self.mask.sum(axis=1) - 1


def unroll(cmdp: CMDP) -> Tree:
    """List every history and every episode, depth first."""
    actions = cmdp.move.shape[1]
    histories: list[tuple[int, float, int, int]] = []  # edge that led here, start chance, state, time
    edges: list[tuple[int, float]] = []  # choice, chance
    episodes: list[tuple[list[int], list[int], list[int], list[int], float, float]] = []

    def visit(
        states: list[int], acts: list[int], path: list[int], taken: list[int], chance: float, begin: float
    ) -> None:
        here = len(histories)
        histories.append((taken[-1] if taken else -1, begin, states[-1], len(acts)))
        for action in range(actions):
            for after in np.flatnonzero(cmdp.move[states[-1], action]):
                step = float(cmdp.move[states[-1], action, after])
                edges.append((here * actions + action, step))
                longer = ([*states, int(after)], [*acts, action], [*path, here], [*taken, len(edges) - 1])
                severity = cmdp.severity(tuple(longer[0]), tuple(longer[1]))
                if severity > 0 or len(longer[1]) == cmdp.horizon:
                    episodes.append((*longer, chance * step, severity))
                else:
                    visit(*longer, chance * step, 0.0)

    for first in np.flatnonzero(cmdp.start):
        visit([int(first)], [], [], [], float(cmdp.start[first]), float(cmdp.start[first]))

    size, horizon = len(episodes), cmdp.horizon
    state = np.zeros((size, horizon + 1), int)
    action, history, edge = (np.zeros((size, horizon), int) for _ in range(3))
    mask = np.zeros((size, horizon), bool)
    for n, (states, acts, path, taken, _, _) in enumerate(episodes):
        state[n, : len(states)] = states
        action[n, : len(acts)], history[n, : len(acts)], edge[n, : len(acts)] = acts, path, taken
        mask[n, : len(acts)] = True
    led, begin, where, when = (np.array(column) for column in zip(*histories))
    edge_choice, edge_chance = (np.array(column) for column in zip(*edges))
    chance, cost = (np.array([episode[i] for episode in episodes]) for i in (4, 5))
    return Tree(
        state=state, action=action, mask=mask, cost=cost, chance=chance,
        history=history, choice=history * actions + action, edge=edge,
        edge_choice=edge_choice, edge_chance=edge_chance,
        history_edge=led, history_start=begin, history_state=where, history_time=when, actions=actions,
    )  # fmt: skip


# --- policies -----------------------------------------------------------------------------------------------


def random_policy(tree: Tree, rng: np.random.Generator) -> Array:
    """[histories, A]: independent action chances at every history, all of them positive."""
    return rng.dirichlet(np.ones(tree.actions), size=len(tree.history_edge))


def markov_policy(tree: Tree, table: Array) -> Array:
    """[histories, A] from a table [S, A]."""
    return np.asarray(table, float)[tree.history_state]


def episode_chances(tree: Tree, policy: Array) -> Array:
    """[N] probability of each episode under a policy."""
    taken = np.where(tree.mask, policy.reshape(-1)[tree.choice], 1.0)
    return tree.chance * taken.prod(axis=1)


def occupancy(tree: Tree, policy: Array) -> Array:
    """[choices] probability that an episode passes through each choice."""
    weights = np.where(tree.mask, episode_chances(tree, policy)[:, None], 0.0)
    return np.bincount(tree.choice.ravel(), weights.ravel(), minlength=policy.size)


def deterministic_episodes(tree: Tree) -> Array:
    """[policies, N] 0/1: the episodes that each deterministic history-dependent policy lets happen.

    Policies that differ only where they never come are listed once. These are the vertices of the occupancy
    polytope: a linear functional that agrees on all of them agrees on every policy.
    """
    size = len(tree.cost)
    ends: dict[int, list[int]] = {}
    for n, last in enumerate(tree.last):
        ends.setdefault(int(tree.choice[n, last]), []).append(n)
    below: dict[int, list[int]] = {}
    for history, led in enumerate(tree.history_edge):
        if led >= 0:
            below.setdefault(int(tree.edge_choice[led]), []).append(history)

    def merge(parts: list[list[Array]], base: Array) -> Iterator[Array]:
        for combination in product(*parts):
            yield base + sum(combination, np.zeros(size, np.int8))

    def policies(history: int) -> list[Array]:
        found: list[Array] = []
        for action in range(tree.actions):
            choice = history * tree.actions + action
            ended = np.zeros(size, np.int8)
            ended[ends.get(choice, [])] = 1
            found += merge([policies(child) for child in below.get(choice, [])], ended)
        return found

    roots = [policies(int(root)) for root in np.flatnonzero(tree.history_edge < 0)]
    return np.array(list(merge(roots, np.zeros(size, np.int8))))


# --- sequence models and redistribution ---------------------------------------------------------------------


def arbitrary_predictions(tree: Tree, rng: np.random.Generator) -> Array:
    """[N, H] a number without meaning for every prefix of (s, a) pairs: the most general sequence model."""
    table = rng.normal(scale=2.0, size=len(tree.history_edge) * tree.actions)
    return np.where(tree.mask, table[tree.choice], 0.0)


def untrained_lstm(tree: Tree, rng: np.random.Generator, hidden: int = 8) -> Array:
    """[N, H] what a randomly initialised LSTM over one-hot (s, a) says after each step."""
    states = int(tree.state.max()) + 1
    pairs = np.concatenate([np.eye(states)[tree.state[:, :-1]], np.eye(tree.actions)[tree.action]], axis=2)
    kernel = rng.normal(size=(pairs.shape[2] + hidden, 4 * hidden))
    bias, head = rng.normal(size=4 * hidden), rng.normal(size=hidden)
    memory = output = np.zeros((len(pairs), hidden))
    said = np.zeros(tree.mask.shape)
    for t in range(pairs.shape[1]):
        gates = np.concatenate([pairs[:, t], output], axis=1) @ kernel + bias
        write, keep, read = (1 / (1 + np.exp(-g)) for g in np.split(gates[:, : 3 * hidden], 3, axis=1))
        memory = keep * memory + write * np.tanh(gates[:, 3 * hidden :])
        output = read * np.tanh(memory)
        said[:, t] = output @ head
    return np.where(tree.mask, said, 0.0)


def perfect_predictions(tree: Tree, behaviour: Array, reads: str = "pairs") -> Array:
    """[N, H] the exact E[C | what was read so far] under the behaviour.

    reads: "pairs" = s0 a0 .. st at, as in the paper; "transitions" = that and s[t+1], so that a stop is seen.
    """
    key = {"pairs": tree.choice, "transitions": tree.edge}[reads]
    return mean_by(tree, key, np.repeat(tree.cost[:, None], key.shape[1], axis=1), behaviour)


def sparse_costs(tree: Tree) -> Array:
    """[N, H] the episodic cost on the last step, zero elsewhere."""
    step = np.zeros(tree.mask.shape)
    step[np.arange(len(step)), tree.last] = tree.cost
    return step


def redistribute(tree: Tree, predictions: Array, rule: Conservation, prior: float = 0.0) -> Array:
    """[N, H] step costs from predictions, by the package's own functions."""
    start = prior if rule.start == "prior" else 0.0
    return conserve(difference(predictions, tree.mask, start), tree.mask, tree.cost, rule)


def uncompensated(tree: Tree, predictions: Array) -> Array:
    """[N, H] a wrong redistribution: Eq. (2) without delta. Here to be caught."""
    return difference(predictions, tree.mask)


def pairs(tree: Tree) -> Array:
    """[N, H] index of (s, a): all that a critic without memory can tell steps apart by."""
    return tree.state[:, :-1] * tree.actions + tree.action


def mean_by(tree: Tree, key: Array, values: Array, behaviour: Array) -> Array:
    """[N, H] the behaviour's mean of values [N, H] over all steps that share a key.

    With step costs for values this is what a regression on the key learns from endless data: with `pairs` the
    target of a critic or a distilled cost model on (s, a), with `tree.choice` that of a critic with memory.
    """
    weights = np.where(tree.mask, episode_chances(tree, behaviour)[:, None], 0.0)
    total = np.bincount(key.ravel(), (weights * values).ravel())
    seen = np.bincount(key.ravel(), weights.ravel())
    mean = np.divide(total, seen, out=np.zeros_like(total), where=seen > 0)
    return np.where(tree.mask, mean[key], 0.0)


# --- constraint functionals ---------------------------------------------------------------------------------


def totals(step: Array, discount: float = 1.0) -> Array:
    """[N] (discounted) sum of each episode's step costs."""
    return step @ discount ** np.arange(step.shape[1])


def expected(tree: Tree, policy: Array, per_episode: Array) -> float:
    """Expectation under a policy of one number per episode."""
    return float(episode_chances(tree, policy) @ per_episode)


def follows_history(tree: Tree, step: Array) -> bool:
    """Whether each step's cost is a function of what had happened up to and including that transition."""
    high, low = (np.full(len(tree.edge_choice), bound) for bound in (-np.inf, np.inf))
    np.maximum.at(high, tree.edge[tree.mask], step[tree.mask])
    np.minimum.at(low, tree.edge[tree.mask], step[tree.mask])
    return bool(np.all(high - low <= 1e-12))


def charge_as_it_falls(tree: Tree, step: Array, discount: float = 1.0) -> Array:
    """[choices] expected cost charged at each choice, when each cost is charged at its own step."""
    if not follows_history(tree, step):
        raise ValueError("these step costs depend on the future; charge them at the end")
    per_edge = np.zeros(len(tree.edge_choice))
    per_edge[tree.edge[tree.mask]] = (step * discount ** np.arange(step.shape[1]))[tree.mask]
    size = len(tree.history_edge) * tree.actions
    return np.bincount(tree.edge_choice, tree.edge_chance * per_edge, minlength=size)


def charge_at_the_end(tree: Tree, per_episode: Array) -> Array:
    """[choices] expected cost charged at each choice, when an episode's whole sum falls on its last step."""
    last = (np.arange(len(tree.cost)), tree.last)
    size = len(tree.history_edge) * tree.actions
    return np.bincount(tree.choice[last], tree.edge_chance[tree.edge[last]] * per_episode, minlength=size)


def gains(tree: Tree, reward: Array, discount: float = 1.0) -> Array:
    """[choices] reward of each choice."""
    return (reward[tree.history_state] * discount ** tree.history_time[:, None]).reshape(-1)


# --- exact solutions ----------------------------------------------------------------------------------------


def flow(tree: Tree) -> tuple[csr_array, Array]:
    """(A, b): x is the occupancy of some policy exactly when x >= 0 and A x = b. One row per history."""
    size = len(tree.history_edge)
    choices = np.arange(size * tree.actions)
    inner = np.flatnonzero(tree.history_edge >= 0)
    led = tree.history_edge[inner]
    values = np.concatenate([np.ones(len(choices)), -tree.edge_chance[led]])
    rows = np.concatenate([choices // tree.actions, inner])
    columns = np.concatenate([choices, tree.edge_choice[led]])
    return csr_array((values, (rows, columns)), shape=(size, len(choices))), tree.history_start


@dataclass(frozen=True)
class Solution:
    """The best policy under a budget, its value and the price of the budget."""

    value: float
    policy: Array  # [histories, A]
    multiplier: float


def solve(tree: Tree, gain: Array, charge: Array, budget: float) -> Solution | None:
    """Maximise gain . x over all policies with charge . x <= budget. None if no policy keeps the budget."""
    equal, right = flow(tree)
    result = linprog(
        -gain, A_ub=charge[None, :], b_ub=[budget], A_eq=equal, b_eq=right, bounds=(0, None), method="highs"
    )
    if result.status == 2:
        return None
    if result.status != 0:
        raise RuntimeError(result.message)
    return Solution(-result.fun, _policy_of(tree, result.x), float(-result.ineqlin.marginals[0]))


def _policy_of(tree: Tree, x: Array) -> Array:
    """[histories, A] action chances from an occupancy; uniform where it never comes."""
    x = np.maximum(x.reshape(-1, tree.actions), 0.0)
    seen = x.sum(axis=1, keepdims=True)
    return np.divide(x, seen, out=np.full_like(x, 1 / tree.actions), where=seen > 1e-12)


def best_response(tree: Tree, gain: Array) -> float:
    """max over all policies of gain . x, by backward induction over histories."""
    ahead = gain.copy().reshape(-1, tree.actions)
    for history in np.argsort(-tree.history_time, kind="stable"):  # deepest first
        led = tree.history_edge[history]
        if led >= 0:
            ahead.reshape(-1)[tree.edge_choice[led]] += tree.edge_chance[led] * ahead[history].max()
    return float(tree.history_start @ ahead.max(axis=1))


def dual(tree: Tree, gain: Array, charge: Array, budget: float, multiplier: float) -> float:
    """max over policies of the Lagrangian: gain - multiplier * (charge - budget)."""
    return best_response(tree, gain - multiplier * charge) + multiplier * budget


def cost_range(tree: Tree, charge: Array) -> tuple[float, float]:
    """Lowest and highest expected cost that any policy can have."""
    return -best_response(tree, -charge), best_response(tree, charge)


# --- problems -----------------------------------------------------------------------------------------------


def random_cmdp(
    rng: np.random.Generator, states: int = 2, horizon: int = 3, labeler: str = "history", unsafe: float = 0.3
) -> CMDP:
    """A random problem with two actions.

    labeler: "transition" = a fixed set of (s, a, s') is unsafe, with cost 1; "history" = any history may be,
    each with its own cost in (0, 1].
    """
    table = (rng.random((states, 2, states)) < unsafe).astype(float)
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}

    def by_transition(seen: tuple[int, ...], acts: tuple[int, ...]) -> float:
        return float(table[seen[-2], acts[-1], seen[-1]])

    def by_history(seen: tuple[int, ...], acts: tuple[int, ...]) -> float:
        if (seen, acts) not in known:
            known[seen, acts] = float(rng.uniform(0.2, 1.0)) if rng.random() < unsafe else 0.0
        return known[seen, acts]

    return CMDP(
        start=rng.dirichlet(np.ones(states)),
        move=rng.dirichlet(np.ones(states), size=(states, 2)),
        reward=rng.random((states, 2)),
        severity={"transition": by_transition, "history": by_history}[labeler],
        horizon=horizon,
    )


def enters(unsafe_state: int) -> Severity:
    """A labeler that stops, with cost 1, on entering one state."""
    return lambda seen, _: float(seen[-1] == unsafe_state)


def layered(cmdp: CMDP) -> CMDP:
    """The same problem with the time in the state, so that a state is never visited twice."""
    states, horizon = len(cmdp.start), cmdp.horizon
    size = states * (horizon + 1)
    start, move, reward = np.zeros(size), np.zeros((size, 2, size)), np.zeros((size, 2))
    start[:states] = cmdp.start
    for t in range(horizon):
        here, after = (slice(k * states, (k + 1) * states) for k in (t, t + 1))
        move[here, :, after], reward[here] = cmdp.move, cmdp.reward
    return CMDP(
        start=start,
        move=move,
        reward=reward,
        severity=lambda seen, acts: cmdp.severity(tuple(s % states for s in seen), acts),
        horizon=horizon,
    )


def brake_or_push() -> CMDP:
    """Two choices, nothing random. First A (0) or B (1), then brake (0, safe) or push (1, unsafe).

    States: 0 start, 1 after A, 2 after B, 3 unsafe, 4 safe end. Brake after A earns 10, push after B earns 9.
    """
    move, reward = np.zeros((5, 2, 5)), np.zeros((5, 2))
    move[0, 0, 1] = move[0, 1, 2] = 1
    move[[1, 2], 0, 4] = move[[1, 2], 1, 3] = 1
    move[[3, 4], :, [3, 4]] = 1
    reward[1, 0], reward[2, 1] = 10, 9
    return CMDP(np.eye(5)[0], move, reward, enters(3), horizon=2)


def junction(unsafe_brake: float, unsafe_push: float, reward: Array | None = None) -> CMDP:
    """Two ways into one state. A (0) is stopped half the time, else reaches the junction; B (1) always does.

    States: 0 start, 1 junction, 2 safe end, 3 unsafe. At the junction brake (0) and push (1) have the given
    chances of being stopped.
    """
    move = np.zeros((4, 2, 4))
    move[0, 0, [1, 3]] = 0.5
    move[0, 1, 1] = 1
    move[1, 0, [2, 3]] = 1 - unsafe_brake, unsafe_brake
    move[1, 1, [2, 3]] = 1 - unsafe_push, unsafe_push
    move[[2, 3], :, [2, 3]] = 1
    return CMDP(np.eye(4)[0], move, np.zeros((4, 2)) if reward is None else reward, enters(3), horizon=2)
