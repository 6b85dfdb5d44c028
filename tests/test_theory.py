"""The theory behind redistributed costs, checked exactly on problems small enough to list every episode.

The first half shows what holds for every policy, every budget and every sequence model, trained or not. The
second half shows where it stops holding, with small problems and their numbers worked by
hand. The prose is in `docs/theory.md`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from theory.cmdp import (
    CMDP,
    Array,
    Tree,
    arbitrary_predictions,
    best_response,
    brake_or_push,
    charge_as_it_falls,
    charge_at_the_end,
    cost_range,
    deterministic_episodes,
    dual,
    episode_chances,
    expected,
    flow,
    follows_history,
    gains,
    junction,
    layered,
    markov_policy,
    mean_by,
    occupancy,
    pairs,
    perfect_predictions,
    random_cmdp,
    random_policy,
    redistribute,
    solve,
    sparse_costs,
    totals,
    uncompensated,
    unroll,
    untrained_lstm,
)

from rci.redistribution.conserve import Conservation, compensate, conserve, difference

PAPER = Conservation()
RULES = [
    Conservation(*options)
    for options in product(("zero", "prior"), ("last", "uniform"), ("signed", "nonnegative"))
]
MODELS = {"arbitrary": arbitrary_predictions, "lstm": untrained_lstm}
PROBLEMS = [(2, 3, "history"), (2, 4, "history"), (3, 3, "transition"), (3, 4, "history")]
PRIOR = 0.37  # any number must do
REWARD_DISCOUNT = 0.95  # the theory leaves the reward alone, so its discount may be what it likes

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{r.start}-{r.compensation}-{r.sign}")
every_model = pytest.mark.parametrize("model", MODELS)
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: "-".join(map(str, p)))


@cache
def problem_tree(problem: tuple[int, int, str]) -> tuple[CMDP, Tree]:
    states, horizon, labeler = problem
    cmdp = random_cmdp(np.random.default_rng(10), states, horizon, labeler)
    return cmdp, unroll(cmdp)


def step_costs(tree: Tree, model: str, rule: Conservation, seed: int = 0) -> Array:
    return redistribute(tree, MODELS[model](tree, np.random.default_rng(seed)), rule, PRIOR)


def budgets(tree: Tree) -> Array:
    """From a budget that nobody can keep to one that everybody keeps."""
    low, high = cost_range(tree, charge_as_it_falls(tree, sparse_costs(tree)))
    return low + np.array([-0.05, 0.013, 0.17, 0.41, 0.73, 1.1]) * (high - low)


def deterministic(tree: Tree, *actions: int) -> Array:
    """The policy that takes actions[s] in state s, and anything in later states."""
    table = np.full((tree.state.max() + 1, 2), 0.5)
    table[: len(actions)] = np.eye(2)[list(actions)]
    return markov_policy(tree, table)


# --- the tools are right ------------------------------------------------------------------------------------


@every_problem
def test_a_policy_gives_a_distribution_over_episodes_and_a_point_of_the_flow_polytope(problem):
    _, tree = problem_tree(problem)
    policy = random_policy(tree, np.random.default_rng(1))
    equal, right = flow(tree)
    assert episode_chances(tree, policy).sum() == pytest.approx(1.0)
    assert equal @ occupancy(tree, policy) == pytest.approx(right)


def test_all_deterministic_policies_are_listed_once():
    tree = unroll(brake_or_push())
    # Two first choices, and one more choice in the single state that follows each.
    np.testing.assert_array_equal(deterministic_episodes(tree), np.eye(4))


def test_the_linear_program_finds_the_hand_worked_mixture():
    """A then brake earns 10 and never violates, B then push earns 9 and always does.

    With 20 for push after A, a budget of 0.4 is spent on it in 0.4 of the episodes: 0.4 * 20 + 0.6 * 10 = 14,
    and one more unit of budget would buy 20 - 10 = 10.
    """
    cmdp = brake_or_push()
    cmdp.reward[1, 1] = 20
    tree = unroll(cmdp)
    solution = solve(tree, gains(tree, cmdp.reward), charge_as_it_falls(tree, sparse_costs(tree)), 0.4)
    assert solution.value == pytest.approx(14.0)
    assert solution.multiplier == pytest.approx(10.0)
    assert expected(tree, solution.policy, tree.cost) == pytest.approx(0.4)


def test_the_three_ways_to_a_best_policy_agree():
    cmdp, tree = problem_tree((2, 3, "history"))
    gain = gains(tree, cmdp.reward, REWARD_DISCOUNT)
    free = solve(tree, gain, np.zeros_like(gain), 1.0)
    vertices = deterministic_episodes(tree) * tree.chance
    per_episode = totals(np.where(tree.mask, gain[tree.choice], 0.0))  # gains carry their discount already
    assert free.value == pytest.approx(best_response(tree, gain))
    assert free.value == pytest.approx((vertices @ per_episode).max())


# --- what holds ---------------------------------------------------------------------------------------------


@every_rule
@every_model
@every_problem
def test_every_policy_has_the_same_expected_cost(problem, model, rule):
    """Proposition 1, on 200 random policies that remember everything."""
    _, tree = problem_tree(problem)
    step = step_costs(tree, model, rule)
    assert np.abs(step - sparse_costs(tree)).max() > 0.1  # it did move the cost
    rng = np.random.default_rng(2)
    chances = np.array([episode_chances(tree, random_policy(tree, rng)) for _ in range(200)])
    assert chances @ totals(step) == pytest.approx(chances @ tree.cost, abs=1e-12)


@every_rule
@every_model
def test_every_deterministic_policy_is_feasible_for_both_or_for_neither(model, rule):
    """All 2,208 of them: the vertices of the set of policies, so nothing is left to check on this problem."""
    _, tree = problem_tree((2, 3, "history"))
    chances = deterministic_episodes(tree) * tree.chance
    sparse, redistributed = chances @ tree.cost, chances @ totals(step_costs(tree, model, rule))
    assert len(chances) == 2208
    assert chances.sum(axis=1) == pytest.approx(np.ones(len(chances)))
    for budget in budgets(tree):
        np.testing.assert_array_equal(sparse <= budget, redistributed <= budget)


@every_model
@every_problem
def test_no_policy_tells_the_two_costs_apart(problem, model):
    """Feasible sets are equal: the largest difference over all policies, by backward induction, is 0."""
    _, tree = problem_tree(problem)
    sparse = charge_as_it_falls(tree, sparse_costs(tree))
    redistributed = charge_as_it_falls(tree, step_costs(tree, model, PAPER))
    assert np.abs(redistributed - sparse).max() > 0.1  # charged at other steps
    assert cost_range(tree, redistributed - sparse) == pytest.approx((0.0, 0.0), abs=1e-12)
    assert cost_range(tree, redistributed) == pytest.approx(cost_range(tree, sparse), abs=1e-12)


@every_model
@every_problem
def test_the_difference_is_a_potential(problem, model):
    """Why it holds: the charges differ by A'y with y(history) = -C^(prefix before it), and y(start) = 0.

    On the polytope A x = b, such a difference is y.b = 0 whatever x is: a proof for every policy at once.
    """
    _, tree = problem_tree(problem)
    predictions = MODELS[model](tree, np.random.default_rng(0))
    step = redistribute(tree, predictions, PAPER)
    spoken = np.zeros(len(tree.history_edge) * tree.actions)
    spoken[tree.choice[tree.mask]] = predictions[tree.mask]
    inner = tree.history_edge >= 0
    y = np.where(inner, -spoken[tree.edge_choice[tree.history_edge]], 0.0)
    equal, right = flow(tree)
    gap = charge_as_it_falls(tree, step) - charge_as_it_falls(tree, sparse_costs(tree))
    assert equal.T @ y == pytest.approx(gap, abs=1e-12)
    assert y @ right == 0.0


@every_model
@every_problem
def test_the_same_optimum_under_every_budget(problem, model):
    """Theorem 1, with each cost charged at its own step."""
    cmdp, tree = problem_tree(problem)
    gain = gains(tree, cmdp.reward, REWARD_DISCOUNT)
    charges = [
        charge_as_it_falls(tree, step) for step in (sparse_costs(tree), step_costs(tree, model, PAPER))
    ]
    for budget in budgets(tree):
        sparse, redistributed = (solve(tree, gain, charge, budget) for charge in charges)
        assert (sparse is None) == (redistributed is None)
        if sparse is not None:
            assert redistributed.value == pytest.approx(sparse.value, abs=1e-9)
            # The policy found with redistributed costs is judged by the label.
            assert expected(tree, redistributed.policy, tree.cost) <= budget + 1e-9
            assert occupancy(tree, redistributed.policy) @ gain == pytest.approx(sparse.value, abs=1e-9)
    # The grid is no formality: nobody keeps the first budget, the next two cost reward, the last costs none.
    assert solve(tree, gain, charges[1], budgets(tree)[0]) is None
    prices = [solve(tree, gain, charges[1], budget).multiplier for budget in budgets(tree)[1:]]
    assert min(prices[:2]) > 0.1
    assert prices[-1] == pytest.approx(0.0, abs=1e-12)


@every_rule
def test_the_same_optimum_under_every_rule(rule):
    """Rules that look ahead have no cost per history, so the whole sum is charged when the episode ends."""
    cmdp, tree = problem_tree((3, 4, "history"))
    gain = gains(tree, cmdp.reward, REWARD_DISCOUNT)
    sparse = charge_as_it_falls(tree, sparse_costs(tree))
    redistributed = charge_at_the_end(tree, totals(step_costs(tree, "lstm", rule)))
    assert cost_range(tree, redistributed) == pytest.approx(cost_range(tree, sparse), abs=1e-12)
    for budget in budgets(tree)[1:]:
        best = solve(tree, gain, redistributed, budget)
        assert best.value == pytest.approx(solve(tree, gain, sparse, budget).value, abs=1e-9)
        assert expected(tree, best.policy, tree.cost) <= budget + 1e-9


@every_model
@every_problem
def test_the_same_lagrangian_and_the_same_saddle_point(problem, model):
    cmdp, tree = problem_tree(problem)
    gain = gains(tree, cmdp.reward, REWARD_DISCOUNT)
    sparse = charge_as_it_falls(tree, sparse_costs(tree))
    redistributed = charge_as_it_falls(tree, step_costs(tree, model, PAPER))
    rng = np.random.default_rng(3)
    budget = budgets(tree)[2]
    for multiplier in (0.0, 0.1, 1.0, 10.0):
        for _ in range(20):
            x = occupancy(tree, random_policy(tree, rng))
            one, other = (x @ gain - multiplier * (x @ charge - budget) for charge in (sparse, redistributed))
            assert one == pytest.approx(other, abs=1e-10)
        one, other = (dual(tree, gain, charge, budget, multiplier) for charge in (sparse, redistributed))
        assert one == pytest.approx(other, abs=1e-10)
    for budget in budgets(tree)[1:]:
        one, other = (solve(tree, gain, charge, budget) for charge in (sparse, redistributed))
        assert one.multiplier == pytest.approx(other.multiplier, abs=1e-8)
        for charge, price in product((sparse, redistributed), (one.multiplier, other.multiplier)):
            assert dual(tree, gain, charge, budget, price) == pytest.approx(one.value, abs=1e-8)


@every_model
def test_without_compensation_all_of_this_fails(model):
    """The checks above can fail: Eq. (2) without delta changes the feasible set, the optimum and the dual."""
    cmdp, tree = problem_tree((2, 3, "history"))
    gain = gains(tree, cmdp.reward, REWARD_DISCOUNT)
    wrong = uncompensated(tree, MODELS[model](tree, np.random.default_rng(0)))
    sparse, charge = (charge_as_it_falls(tree, step) for step in (sparse_costs(tree), wrong))
    low, high = cost_range(tree, charge - sparse)
    assert high - low > 0.1
    chances = deterministic_episodes(tree) * tree.chance
    budget = budgets(tree)[2]
    assert np.any((chances @ tree.cost <= budget) != (chances @ totals(wrong) <= budget))
    found, true = (solve(tree, gain, costs, budget) for costs in (charge, sparse))
    assert found is None or abs(found.value - true.value) > 0.01
    assert abs(dual(tree, gain, charge, budget, 1.0) - dual(tree, gain, sparse, budget, 1.0)) > 0.01


# --- what kind of function a step cost is -------------------------------------------------------------------


@every_rule
def test_only_the_papers_rule_keeps_step_costs_free_of_the_future(rule):
    """The other rules divide by the episode's length or by its total, which are known only at its end."""
    _, tree = problem_tree((2, 3, "history"))
    step = step_costs(tree, "lstm", rule)
    assert follows_history(tree, step) == (rule == PAPER)
    if rule != PAPER:
        with pytest.raises(ValueError, match="depend on the future"):
            charge_as_it_falls(tree, step)


def test_no_function_of_state_and_action_is_return_equivalent_at_the_junction():
    """Definition 1 asks for c~ on S x A. B, then brake, is stopped in one episode and not in another."""
    tree = unroll(junction(0.2, 0.2))
    visits = np.zeros((len(tree.cost), 8))
    for n, t in zip(*np.nonzero(tree.mask)):
        visits[n, pairs(tree)[n, t]] += 1
    # visits @ c = C has no solution c: the costs are not in the span of the columns.
    with_cost = np.column_stack([visits, tree.cost])
    assert np.linalg.matrix_rank(with_cost) == np.linalg.matrix_rank(visits) + 1
    b_brake = np.flatnonzero((visits[:, 1] == 1) & (visits[:, 2] == 1))
    assert sorted(tree.cost[b_brake]) == [0.0, 1.0]


# --- where it stops: a cost discount ------------------------------------------------------------------------

BRAKE_OR_PUSH_MU = [[0.5, 0.5], [0.2, 0.8], [0.8, 0.2], [0.5, 0.5], [0.5, 0.5]]


def brake_or_push_costs() -> tuple[CMDP, Tree, Array]:
    """Step costs of a perfect model of a behaviour that pushes in 0.8 of the cases after A, 0.2 after B."""
    cmdp = brake_or_push()
    tree = unroll(cmdp)
    behaviour = markov_policy(tree, BRAKE_OR_PUSH_MU)
    return cmdp, tree, redistribute(tree, perfect_predictions(tree, behaviour), PAPER)


def test_discount_counterexample_step_costs():
    _, tree, step = brake_or_push_costs()
    np.testing.assert_array_equal(tree.action, [[0, 0], [0, 1], [1, 0], [1, 1]])
    assert step == pytest.approx(np.array([[0.8, -0.8], [0.8, 0.2], [0.2, -0.2], [0.2, 0.8]]))
    assert totals(step) == pytest.approx([0, 1, 0, 1], abs=1e-12)
    assert totals(step, 0.25) == pytest.approx([0.6, 0.85, 0.15, 0.4])
    assert totals(sparse_costs(tree), 0.25) == pytest.approx([0, 0.25, 0, 0.25])


def test_discount_counterexample_turns_feasible_set_and_optimum_around():
    """Budget 0.4. Undiscounted: A-brake (reward 10, never violates). gamma_c = 1/4: B-push (always does)."""
    cmdp, tree, step = brake_or_push_costs()
    gain = gains(tree, cmdp.reward)
    assert gain[tree.choice].sum(axis=1) == pytest.approx([10, 0, 0, 9])
    np.testing.assert_array_equal(tree.cost <= 0.4, [True, False, True, False])
    np.testing.assert_array_equal(totals(step, 0.25) <= 0.4 + 1e-12, [False, False, True, True])
    found = {
        (name, discount): solve(tree, gain, charge_as_it_falls(tree, costs, discount), 0.4)
        for name, costs in (("sparse", sparse_costs(tree)), ("redistributed", step))
        for discount in (1.0, 0.25)
    }
    for key in (("sparse", 1.0), ("redistributed", 1.0), ("sparse", 0.25)):
        assert found[key].value == pytest.approx(10.0)
        assert episode_chances(tree, found[key].policy) == pytest.approx([1, 0, 0, 0])
    turned = found["redistributed", 0.25]
    assert turned.value == pytest.approx(9.0)
    assert episode_chances(tree, turned.policy) == pytest.approx([0, 0, 0, 1])
    assert expected(tree, turned.policy, tree.cost) == pytest.approx(1.0)


def test_discount_counterexample_at_099_and_100_steps():
    """The same choice with 99 uneventful steps before the outcome: 0.99^100 = 0.3660, and the order turns."""
    predictions = np.repeat([[0.8], [0.2]], 101, axis=1)
    predictions[:, -1] = cost = np.array([0.0, 1.0])  # A-brake, B-push
    mask = np.ones((2, 101), bool)
    step = compensate(difference(predictions, mask), mask, cost)
    assert totals(step) == pytest.approx([0, 1], abs=1e-12)
    kept = 0.99**100
    assert kept == pytest.approx(0.3660, abs=5e-5)
    assert totals(step, 0.99) == pytest.approx([0.5072, 0.4928], abs=5e-5)


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
def test_what_a_discounted_sum_really_is(discount):
    """sum g^t c~_t = g^T C + (1 - g) sum_{t<T} g^t C^_t: part of what the model said on the way stays in."""
    _, tree = problem_tree((3, 4, "history"))
    predictions = untrained_lstm(tree, np.random.default_rng(0))
    step = redistribute(tree, predictions, PAPER)
    on_the_way = np.where(np.arange(4) < tree.last[:, None], predictions, 0.0)
    stays = (1 - discount) * totals(on_the_way, discount)
    assert totals(step, discount) == pytest.approx(discount**tree.last * tree.cost + stays, abs=1e-12)


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
def test_a_discounted_difference_would_keep_the_discounted_label(discount):
    """g C^_t - C^_{t-1}, closed by C - C^_{T-1}, sums to g^T C. It still bounds no violation probability."""
    _, tree = problem_tree((3, 4, "history"))
    predictions = untrained_lstm(tree, np.random.default_rng(0))
    before = np.concatenate([np.zeros((len(predictions), 1)), predictions[:, :-1]], axis=1)
    step = np.where(tree.mask, discount * predictions - before, 0.0)
    rows = np.arange(len(step))
    step[rows, tree.last] = tree.cost - before[rows, tree.last]
    assert totals(step, discount) == pytest.approx(discount**tree.last * tree.cost, abs=1e-12)
    assert np.abs(totals(step, discount) - tree.cost).max() > 0.01


@dataclass(frozen=True)
class Case:
    """A random problem with a labeler of transitions, and a budget that costs reward in it."""

    cmdp: CMDP
    budget: float  # three tenths of the way from the safest policy to the most dangerous one
    value: float  # best reward under the budget


@cache
def random_cases(count: int) -> list[Case]:
    cases: list[Case] = []
    for seed in range(10 * count):
        cmdp = random_cmdp(np.random.default_rng(seed), labeler="transition")
        tree = unroll(cmdp)
        gain, charge = gains(tree, cmdp.reward, REWARD_DISCOUNT), charge_as_it_falls(tree, sparse_costs(tree))
        low, high = cost_range(tree, charge)
        budget = low + 0.3 * (high - low)
        best = solve(tree, gain, charge, budget)
        if best_response(tree, gain) > best.value + 0.01:
            cases.append(Case(cmdp, budget, best.value))
        if len(cases) == count:
            break
    return cases


def verdict(case: Case, tree: Tree, charge: Array) -> str:
    """How the best policy under these charges does under the label."""
    found = solve(tree, gains(tree, case.cmdp.reward, REWARD_DISCOUNT), charge, case.budget)
    if found is None:
        return "declared impossible"
    if expected(tree, found.policy, tree.cost) > case.budget + 1e-6:
        return "breaks the budget"
    return "loses reward" if found.value < case.value - 1e-6 else "same"


@pytest.mark.parametrize(
    ("discount", "sparse", "redistributed"),
    [
        (1.0, {"same": 50}, {"same": 50}),
        (0.9, {"breaks the budget": 50}, {"breaks the budget": 3, "loses reward": 47}),
    ],
)
def test_how_often_a_discount_moves_the_optimum(discount, sparse, redistributed):
    """50 random problems, perfect model of a uniform behaviour."""
    counts = Counter(), Counter()
    for case in random_cases(50):
        tree = unroll(case.cmdp)
        behaviour = markov_policy(tree, np.full((2, 2), 0.5))
        step = redistribute(tree, perfect_predictions(tree, behaviour), PAPER)
        for count, costs in zip(counts, (sparse_costs(tree), step)):
            count[verdict(case, tree, charge_as_it_falls(tree, costs, discount))] += 1
    assert counts == (sparse, redistributed)


# --- where it stops: a critic on (s, a) ---------------------------------------------------------------------

JUNCTION_MU = [[2 / 3, 1 / 3], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]


def junction_costs(cmdp: CMDP, reads: str = "pairs", rule: Conservation = PAPER) -> tuple[Tree, Array, Array]:
    """Step costs of a perfect model of a behaviour that takes A in two thirds of the episodes."""
    tree = unroll(cmdp)
    behaviour = markov_policy(tree, JUNCTION_MU)
    base_rate = expected(tree, behaviour, tree.cost)
    return tree, behaviour, redistribute(tree, perfect_predictions(tree, behaviour, reads), rule, base_rate)


def test_averaging_counterexample_step_costs():
    """C^(A) = 1/2 + 1/2 * 1/5 = 0.6 and C^(B) = 0.2; at the junction the model says 0.2."""
    tree, _, step = junction_costs(junction(0.2, 0.2))
    # A: junction safe, junction stopped (each with brake and with push), stopped at once; then B.
    first, second = (
        [0.6, 0.6, 0.6, 0.6, 1.0, 0.2, 0.2, 0.2, 0.2],
        [-0.6, 0.4, -0.6, 0.4, 0, -0.2, 0.8, -0.2, 0.8],
    )
    assert step == pytest.approx(np.column_stack([first, second]))
    assert totals(step) == pytest.approx(tree.cost, abs=1e-12)


def test_averaging_counterexample_declares_an_impossible_budget_kept():
    """B violates in 0.2 of the episodes and nothing is safer. Averaged onto (s, a), B is billed 0."""
    tree, behaviour, step = junction_costs(junction(0.2, 0.2))
    averaged = mean_by(tree, pairs(tree), step, behaviour)
    table = {
        (s, a): averaged[(tree.state[:, :-1] == s) & (tree.action == a) & tree.mask]
        for s, a in product((0, 1), (0, 1))
    }
    assert table[0, 0] == pytest.approx(0.8)  # half stopped at 1, half going on at 0.6
    assert table[0, 1] == pytest.approx(0.2)
    assert table[1, 0] == pytest.approx(-0.2)  # 0.2 - (0.6 + 0.2) / 2, as both ways in are equally frequent
    assert table[1, 1] == pytest.approx(-0.2)
    take_a, take_b = deterministic(tree, 0), deterministic(tree, 1)
    assert [expected(tree, p, tree.cost) for p in (take_a, take_b)] == pytest.approx([0.6, 0.2])
    assert [expected(tree, p, totals(averaged)) for p in (take_a, take_b)] == pytest.approx(
        [0.7, 0.0], abs=1e-12
    )
    both = [expected(tree, behaviour, per_episode) for per_episode in (tree.cost, totals(averaged))]
    assert both == pytest.approx([7 / 15, 7 / 15])
    charges = [charge_as_it_falls(tree, costs) for costs in (step, averaged)]
    assert cost_range(tree, charges[0]) == pytest.approx((0.2, 0.6))
    assert cost_range(tree, charges[1]) == pytest.approx((0.0, 0.7), abs=1e-12)
    reward = np.zeros((4, 2))
    reward[0, 1] = 1  # for B, so that the answer is unique
    assert solve(tree, gains(tree, reward), charges[0], 0.1) is None
    fooled = solve(tree, gains(tree, reward), charges[1], 0.1)
    assert expected(tree, fooled.policy, tree.cost) == pytest.approx(0.2)


def test_averaging_counterexample_turns_the_optimum_around():
    """Budget 1/2. A-brake: reward 8, violates in 1/2. B-push: reward 9, violates in 2/3, billed 1/2."""
    reward = np.zeros((4, 2))
    reward[0, 0], reward[1, 1] = 8, 9
    tree, behaviour, step = junction_costs(junction(0.0, 2 / 3, reward))
    averaged = mean_by(tree, pairs(tree), step, behaviour)
    policies = [deterministic(tree, first, then) for first, then in product((0, 1), (0, 1))]
    true = [expected(tree, policy, tree.cost) for policy in policies]
    billed = [expected(tree, policy, totals(averaged)) for policy in policies]
    assert true == pytest.approx([1 / 2, 5 / 6, 0, 2 / 3])
    assert billed == pytest.approx([7 / 12, 11 / 12, -1 / 6, 1 / 2])
    gain = gains(tree, reward)
    assert [occupancy(tree, policy) @ gain for policy in policies] == pytest.approx([8, 12.5, 0, 9])
    right, wrong = (solve(tree, gain, charge_as_it_falls(tree, costs), 0.5) for costs in (step, averaged))
    assert right.value == pytest.approx(8.0)
    assert expected(tree, right.policy, tree.cost) == pytest.approx(1 / 2)
    assert wrong.value == pytest.approx(9.0)
    assert expected(tree, wrong.policy, tree.cost) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("rule", "once", "distilled"),
    [
        (Conservation(), 0.0, -0.1),
        (Conservation(compensation="uniform"), 0.0, 0.05),
        (Conservation(sign="nonnegative"), 0.16, 0.148),
        (Conservation(compensation="uniform", sign="nonnegative"), 0.16, 0.176),
    ],
    ids=["last-signed", "uniform-signed", "last-nonnegative", "uniform-nonnegative"],
)
def test_what_b_is_billed_under_each_rule_and_after_distilling(rule, once, distilled):
    """True cost of B: 0.2. Distilled costs are conserved again and so exact, until a critic averages them."""
    tree, behaviour, step = junction_costs(junction(0.2, 0.2), rule=rule)
    take_b = deterministic(tree, 1)
    averaged = mean_by(tree, pairs(tree), step, behaviour)
    exact = conserve(averaged, tree.mask, tree.cost, rule)
    averaged_again = mean_by(tree, pairs(tree), exact, behaviour)
    assert expected(tree, take_b, totals(averaged)) == pytest.approx(once, abs=1e-12)
    assert expected(tree, take_b, totals(exact)) == pytest.approx(0.2)
    assert expected(tree, take_b, totals(averaged_again)) == pytest.approx(distilled, abs=1e-12)


@pytest.mark.parametrize(
    ("time_in_state", "costs", "counts"),
    [
        (False, "sparse", {"same": 50}),
        (False, "pairs", {"declared impossible": 17, "breaks the budget": 16, "loses reward": 17}),
        (False, "transitions", {"declared impossible": 21, "breaks the budget": 12, "loses reward": 17}),
        (True, "sparse", {"same": 50}),
        (True, "pairs", {"breaks the budget": 42, "loses reward": 6, "same": 2}),
        (True, "transitions", {"same": 50}),
    ],
)
def test_how_often_averaging_moves_the_optimum(time_in_state, costs, counts):
    """The 50 problems again, undiscounted: sparse costs or those of a perfect model, averaged onto (s, a)."""
    found = Counter()
    for case in random_cases(50):
        if time_in_state:  # the same problem, so the same budget and the same best reward
            case = replace(case, cmdp=layered(case.cmdp))
        tree = unroll(case.cmdp)
        behaviour = markov_policy(tree, np.full((len(case.cmdp.start), 2), 0.5))
        step = sparse_costs(tree)
        if costs != "sparse":
            step = redistribute(tree, perfect_predictions(tree, behaviour, costs), PAPER)
        averaged = mean_by(tree, pairs(tree), step, behaviour)
        found[verdict(case, tree, charge_as_it_falls(tree, averaged))] += 1
    assert found == counts


# --- where averaging is harmless ----------------------------------------------------------------------------


@every_rule
@every_model
@every_problem
def test_averaging_keeps_the_behaviours_own_cost(problem, model, rule):
    _, tree = problem_tree(problem)
    behaviour = random_policy(tree, np.random.default_rng(4))
    averaged = mean_by(tree, pairs(tree), step_costs(tree, model, rule), behaviour)
    assert expected(tree, behaviour, totals(averaged)) == pytest.approx(expected(tree, behaviour, tree.cost))


def averaging_error(tree: Tree, step: Array, key: Array, behaviour: Array) -> float:
    """Largest error, over all policies, of the expected cost after averaging."""
    averaged = mean_by(tree, key, step, behaviour)
    gap = charge_at_the_end(tree, totals(averaged) - tree.cost)
    return max(map(abs, cost_range(tree, gap)))


def test_averaging_sparse_costs_is_exact_when_transitions_are_labelled():
    """The sparse cost at (s, a) is then the chance of an unsafe transition, however one got to s."""
    _, tree = problem_tree((3, 3, "transition"))
    behaviour = random_policy(tree, np.random.default_rng(4))
    assert averaging_error(tree, sparse_costs(tree), pairs(tree), behaviour) == pytest.approx(0, abs=1e-12)
    _, by_history = problem_tree((3, 4, "history"))
    behaviour = random_policy(by_history, np.random.default_rng(4))
    assert averaging_error(by_history, sparse_costs(by_history), pairs(by_history), behaviour) > 0.1


@every_model
@every_problem
def test_a_critic_with_memory_is_exact_for_the_papers_rule(problem, model):
    _, tree = problem_tree(problem)
    behaviour = random_policy(tree, np.random.default_rng(4))
    step = step_costs(tree, model, PAPER)
    assert averaging_error(tree, step, tree.choice, behaviour) == pytest.approx(0, abs=1e-12)
    assert averaging_error(tree, step, pairs(tree), behaviour) > 0.1


def test_memory_does_not_help_against_rules_that_look_ahead():
    """What A costs then depends on how the behaviour went on. A-brake never violates: billed 0.4 or 0.64."""
    _, tree, _ = brake_or_push_costs()
    behaviour = markov_policy(tree, BRAKE_OR_PUSH_MU)
    silent = np.zeros(tree.mask.shape)  # a model that always says 0, so that all is compensation
    uniform = redistribute(tree, silent, Conservation(compensation="uniform"))
    perfect = perfect_predictions(tree, behaviour)
    nonnegative = redistribute(tree, perfect, Conservation(sign="nonnegative"))
    billed = [totals(mean_by(tree, tree.choice, step, behaviour)) for step in (uniform, nonnegative)]
    assert billed[0] == pytest.approx([0.4, 0.9, 0.1, 0.6])
    assert billed[1] == pytest.approx([0.64, 0.84, 0.04, 0.84])


def test_a_perfect_model_that_sees_transitions_makes_averaging_exact():
    """If the state holds the time and stops are seen, c~_t = V(s[t+1]) - V(s[t]) needs no history."""
    for seed in range(5):
        tree = unroll(layered(random_cmdp(np.random.default_rng(seed), 2, 4, "transition")))
        behaviour = markov_policy(tree, np.random.default_rng(seed).dirichlet([1, 1], size=10))
        errors = [
            averaging_error(
                tree,
                redistribute(tree, perfect_predictions(tree, behaviour, reads), PAPER),
                pairs(tree),
                behaviour,
            )
            for reads in ("transitions", "pairs")
        ]
        assert errors[0] == pytest.approx(0, abs=1e-12)
        assert errors[1] > 1e-3
    tree, behaviour, step = junction_costs(junction(0.2, 0.2), reads="transitions")
    averaged = mean_by(tree, pairs(tree), step, behaviour)
    assert expected(tree, deterministic(tree, 1), totals(averaged)) == pytest.approx(0.2)


# --- what the step costs of a perfect model mean ------------------------------------------------------------


@every_problem
def test_a_perfect_model_that_sees_transitions_gives_martingale_differences(problem):
    """Given the history, the behaviour's mean step cost is 0, but for the first step: the base rate."""
    _, tree = problem_tree(problem)
    behaviour = random_policy(tree, np.random.default_rng(5))
    predictions = perfect_predictions(tree, behaviour, "transitions")
    step = redistribute(tree, predictions, PAPER)
    assert step == pytest.approx(difference(predictions, tree.mask), abs=1e-12)  # nothing to compensate
    drift = mean_by(tree, tree.history, step, behaviour)
    assert np.abs(drift[:, 1:]).max() < 1e-12
    assert np.abs(step[:, 1:]).max() > 0.1
    base_rate = expected(tree, behaviour, tree.cost)
    assert episode_chances(tree, behaviour) @ drift[:, 0] == pytest.approx(base_rate)
    # So what is still to come, seen from any transition, is 0 under the behaviour.
    ahead = np.cumsum(step[:, ::-1], axis=1)[:, ::-1] - step
    assert np.abs(mean_by(tree, tree.edge, ahead, behaviour)).max() < 1e-12


@every_problem
def test_its_mean_at_a_choice_is_the_behaviours_cost_advantage(problem):
    """c~ averages to Q - V there, so E_pi[C] = base rate + E_pi[sum of advantages] for every policy pi."""
    _, tree = problem_tree(problem)
    behaviour = random_policy(tree, np.random.default_rng(5))
    step = redistribute(tree, perfect_predictions(tree, behaviour, "transitions"), PAPER)
    label = np.repeat(tree.cost[:, None], step.shape[1], axis=1)
    Q, V = (mean_by(tree, key, label, behaviour) for key in (tree.choice, tree.history))
    advantage = mean_by(tree, tree.choice, step, behaviour)
    assert advantage[:, 1:] == pytest.approx((Q - V)[:, 1:], abs=1e-12)
    assert advantage[:, 0] == pytest.approx(Q[:, 0], abs=1e-12)
    rng = np.random.default_rng(6)
    for _ in range(20):
        policy = random_policy(tree, rng)
        gained = expected(tree, policy, totals(Q - V) + V[:, 0])
        assert gained == pytest.approx(expected(tree, policy, tree.cost))


@every_problem
def test_always_taking_the_cheapest_step_improves_on_the_behaviour(problem):
    _, tree = problem_tree(problem)
    behaviour = random_policy(tree, np.random.default_rng(5))
    step = redistribute(tree, perfect_predictions(tree, behaviour, "transitions"), PAPER)
    price = np.full(len(tree.history_edge) * 2, np.inf)
    price[tree.choice[tree.mask]] = mean_by(tree, tree.choice, step, behaviour)[tree.mask]
    greedy = np.eye(2)[price.reshape(-1, 2).argmin(axis=1)]
    assert expected(tree, greedy, tree.cost) < expected(tree, behaviour, tree.cost)


def test_the_first_step_is_billed_for_what_the_behaviour_does_next():
    """A is harmless: A-brake never violates. It is billed 0.8 since the behaviour pushes after A in 0.8."""
    _, tree, step = brake_or_push_costs()
    behaviour = markov_policy(tree, BRAKE_OR_PUSH_MU)
    mean = mean_by(tree, tree.choice, step, behaviour)
    assert mean[:, 0] == pytest.approx([0.8, 0.8, 0.2, 0.2])
    assert expected(tree, behaviour, step[:, 0]) == pytest.approx(0.5)  # the base rate
    assert mean_by(tree, tree.history, step, behaviour)[:, 1] == pytest.approx([0, 0, 0, 0], abs=1e-12)
    assert expected(tree, deterministic(tree, 0, 0), tree.cost) == 0.0


def test_a_perfect_model_of_pairs_pays_a_survival_bonus():
    """A model of (s, a) pairs cannot see that A went well; the next step repays 0.6 - 0.2, come what may."""
    tree, behaviour, step = junction_costs(junction(0.2, 0.2))
    drift = mean_by(tree, tree.history, step, behaviour)[:, 1]
    survived = tree.mask[:, 1]
    assert drift[survived & (tree.action[:, 0] == 0)] == pytest.approx(-0.4)
    assert drift[survived & (tree.action[:, 0] == 1)] == pytest.approx(0.0, abs=1e-12)
    # Nor does the compensation vanish under perfect prediction: C - C^ is -0.2, 0.8 or 0.4.
    missing = tree.cost - totals(difference(perfect_predictions(tree, behaviour), tree.mask))
    assert missing == pytest.approx([-0.2, 0.8, -0.2, 0.8, 0.4, -0.2, 0.8, -0.2, 0.8])
    seeing, behaviour, step = junction_costs(junction(0.2, 0.2), reads="transitions")
    assert np.abs(mean_by(seeing, seeing.history, step, behaviour)[:, 1]).max() < 1e-12


def test_a_perfect_model_of_pairs_gives_martingale_differences_if_nothing_ends_early():
    """Then survival tells nothing, and the mean given all earlier pairs is 0 again."""
    tables = random_cmdp(np.random.default_rng(8), 2, 3, "history")
    late = CMDP(
        tables.start, tables.move, tables.reward,
        lambda seen, acts: tables.severity(seen, acts) if len(acts) == 3 else 0.0, horizon=3,
    )  # fmt: skip
    drifts = []
    for cmdp in (late, tables):
        tree = unroll(cmdp)
        behaviour = random_policy(tree, np.random.default_rng(5))
        step = redistribute(tree, perfect_predictions(tree, behaviour), PAPER)
        later = np.zeros_like(step)
        later[:, :-1] = step[:, 1:]  # the next step's cost, 0 if the episode ended here
        drift = mean_by(tree, tree.choice, later, behaviour)
        drifts.append(np.abs(drift).max())
    assert drifts[0] < 1e-12
    assert drifts[1] > 0.01
