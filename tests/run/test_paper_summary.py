"""From rows to numbers, whatever subset of the rows is there."""

import json
import math

import numpy as np
import pytest
from paper_rows import row, sweep, whole_study
from rci.run.paper.bars import MET, MISSED, OPEN

from rci.data.errors import RciError
from rci.evaluation.reference import ReferencePoint, Ruler
from rci.evaluation.stats import clopper_pearson, t_half_width
from rci.run.paper.answers import NOT_RUN
from rci.run.paper.frontiers import compared_returns, method_frontier
from rci.run.paper.outcomes import select_by_simulator, select_from_logs
from rci.run.paper.policy_rows import NAMES, policy_rows
from rci.run.paper.summary import paper_summary, rows_of_experiment


@pytest.fixture(scope="module")
def study():
    return paper_summary(whole_study())


def outcomes_of(rows, experiment="highway"):
    return {o.method: o for o in paper_summary(rows).experiment(experiment).outcomes}


def bar(rows, name):
    return next(one for one in paper_summary(rows).bars if one.name == name)


def policy(method, seed, rate, gain, **changes):
    """A selected policy whose selection numbers are its evaluation numbers."""
    numbers = {
        "violation_rate": rate, "mean_return": gain, "mean_return_until_stop": gain,
        "selection_violation_rate": rate, "selection_return": gain,
    }  # fmt: skip
    budget = "inf" if method == "reward-only" else "P30"
    return row(**{"method": method, "seed": seed, "budget": budget, **numbers, **changes})


# --- rows at the border ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_field_is_named_with_its_row(name):
    bad = row(policy=1)
    del bad[name]
    with pytest.raises(RciError, match=f"row 1 has no field '{name}'"):
        policy_rows([row(), bad])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"violation_rate": 1.2}, "'violation_rate' should be a share from 0 to 1"),
        ({"mean_return": math.nan}, "'mean_return' should be a number"),
        ({"mean_return": None}, "'mean_return' should be a number"),
        ({"multiplier": "x"}, "'multiplier' should be a number or null"),
        ({"selected": 1}, "'selected' should be true or false"),
        ({"seed": True}, "'seed' should be a whole number"),
        ({"episodes": 0}, "'episodes' should be at least 1"),
        ({"budget": "tight"}, "'budget' should be inf, a percentile"),
        ({"task": ""}, "'task' should be a text"),
        ({"logs_seed": -1}, "'logs_seed' should be a whole number"),
        ({"channel_violation_rate": {"road": 2}}, "'channel_violation_rate' should be a share"),
    ],
)
def test_a_bad_field_is_named_with_its_row(changes, message):
    with pytest.raises(RciError, match=f"row 0: {message}"):
        policy_rows([row(**changes)])


def test_the_same_policy_twice_is_refused():
    with pytest.raises(RciError, match="rows 0 and 1 are of the same policy"):
        policy_rows([row(), row()])


def test_the_order_of_rows_does_not_matter():
    rows = sweep("highway") + sweep("composition", dataset="ppo")
    turned = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    first, second = paper_summary(rows), paper_summary(turned)
    assert first.experiments == second.experiments
    assert first.bars == second.bars


# --- choices --------------------------------------------------------------------------------------------------


def test_with_a_simulator_the_lowest_violation_rate_is_selected_then_the_higher_return():
    rows = policy_rows(
        [
            row(policy=0, selection_violation_rate=0.1, selection_return=9.0),
            row(policy=1, selection_violation_rate=0.0, selection_return=1.0),
            row(policy=2, selection_violation_rate=0.0, selection_return=2.0),
            row(policy=3, selection_violation_rate=0.0, selection_return=5.0, selected=False),
        ]
    )
    assert select_by_simulator(rows).policy == 2
    assert select_by_simulator(rows[3:]) is None


def test_from_logs_the_lowest_predicted_cost_that_keeps_half_of_the_way_up():
    predicted = [(0.0, -3.0), (0.1, -1.9), (0.2, -1.0)]  # half of the way is -2
    rows = policy_rows(
        [row(policy=i, predicted_cost=c, predicted_return=r) for i, (c, r) in enumerate(predicted)]
    )
    assert select_from_logs(rows).policy == 1
    assert select_from_logs(policy_rows([row(predicted_cost=None)])) is None


# --- outcomes -------------------------------------------------------------------------------------------------


def test_an_outcome_by_hand():
    rows = [policy("rci", seed, rate, gain) for seed, (rate, gain) in enumerate([(0.0, 1.0), (0.04, 3.0)])]
    rows += [policy("reward-only", seed, 0.4, gain) for seed, gain in enumerate([2.0, 4.0])]
    found = outcomes_of(rows)["rci"]
    assert found.violation.mean == pytest.approx(0.02)
    assert found.violation.error == pytest.approx(0.02)  # sqrt(0.0008) / sqrt(2)
    assert found.violation.half_width == pytest.approx(t_half_width([0.0, 0.04]))
    assert (found.low, found.high) == clopper_pearson(40, 2000)
    assert found.mean_return.values == (1.0, 3.0)
    assert found.against.difference == pytest.approx(-1.0)
    assert found.against.t == pytest.approx(-1.0 / np.sqrt(2.0))  # both variances are 2, over 2 seeds each
    (ratio,) = found.ratios
    assert (ratio.to, ratio.ratio) == ("reward-only", pytest.approx(0.05))
    assert outcomes_of(rows)["reward-only"].against is None


def test_one_seed_has_no_error():
    rows = [policy("rci", 0, 0.02, 3.0), policy("reward-only", 0, 0.4, 4.0)]
    found = outcomes_of(rows)["rci"]
    assert found.violation.error is None
    assert found.violation.half_width is None
    assert (found.against.difference, found.against.p) == (-1.0, None)


def test_without_reward_only_nothing_is_compared_with_it():
    found = outcomes_of([policy("rci", seed, 0.02, 3.0) for seed in range(2)])["rci"]
    assert found.against is None
    assert found.ratios == ()


def test_zero_violations():
    rows = [policy(m, s, 0.0, 3.0 + s) for m in ("rci", "sparse", "reward-only") for s in range(3)]
    found = outcomes_of(rows)["rci"]
    assert found.violation.mean == 0.0
    assert found.high > 0.0
    assert all(math.isnan(ratio.ratio) for ratio in found.ratios)
    assert bar(rows, "highway: full return").verdict == MET


def test_a_seed_without_a_selected_policy_is_not_counted():
    rows = [policy("rci", 0, 0.02, 3.0), policy("rci", 1, 0.5, 3.0, selected=False)]
    assert outcomes_of(rows)["rci"].seeds == (0,)
    assert outcomes_of(rows[1:]) == {}
    (only,) = paper_summary(rows[1:]).experiment("highway").frontiers
    assert only.seeds == (1,)


def test_channels_are_told():
    rates = {"proximity": 0.03, "road": 0.01}
    rows = [row(experiment="highway-two", task="highway-two", channel_violation_rate=rates)]
    experiment = paper_summary(rows).experiment("highway-two")
    assert experiment.answer.startswith("First violations by kind of danger. rci: proximity 3.0%, road 1.0%")
    (found,) = experiment.outcomes
    assert {name: one.mean for name, one in found.channels} == rates


# --- frontiers ------------------------------------------------------------------------------------------------


def test_targets_lie_between_the_safest_policies_and_reward_only():
    rows = [policy("rci", 0, 0.0, 2.0), policy("rci", 0, 0.3, 1.0, policy=1)]
    rows += [policy("reward-only", seed, 0.8, gain) for seed, gain in enumerate([9.0, 11.0])]
    returns = compared_returns(policy_rows(rows))["highway", "mixed", 0]
    assert returns == (
        2.0,
        10.0,
    )  # the policy that returns 1 violates more than that with 2: no frontier has it
    assert returns.at(0.25) == 4.0
    assert compared_returns(policy_rows(rows[:2])) == {}


def test_violations_at_a_matched_return_by_hand():
    rows = [policy("rci", seed, 0.0, 2.0) for seed in range(2)]
    rows += [policy("reward-only", seed, rate, 10.0) for seed, rate in enumerate([0.8, 0.4])]
    found = next(f for f in paper_summary(rows).experiment("highway").frontiers if f.method == "rci")
    half = found.matched[1]
    assert (half.share, half.target) == (0.5, 6.0)
    assert half.reached.violation.values == pytest.approx((0.4, 0.2))
    assert half.reached.mean_return == pytest.approx(6.0)
    # Each of the four policies weighs a quarter: all 4,000 episodes count.
    assert (half.reached.low, half.reached.high) == pytest.approx(clopper_pearson(1200, 4000))
    assert found.area.mean == pytest.approx(0.3)
    assert found.curve[0] == pytest.approx((2.0, 0.0))
    assert found.curve[-1] == pytest.approx((10.0, 0.6))


def test_a_return_that_is_not_reached_is_said_so():
    rows = policy_rows([policy("rci", 0, 0.0, 2.0), policy("rci", 1, 0.1, 8.0)])
    reference = policy_rows([policy("rci", 9, 0.0, 0.0), policy("reward-only", 9, 0.5, 10.0)])
    returns = compared_returns(reference)["highway", "mixed", 0]
    found = method_frontier(rows[0].setting, "rci", rows, [], returns)
    assert [m.target for m in found.matched] == [2.5, 5.0, 7.5]
    assert [m.reached.seeds for m in found.matched] == [1, 1, 1]  # seed 0 returns 2 at most
    assert method_frontier(rows[0].setting, "rci", rows[:1], [], returns).matched[0].reached is None
    assert method_frontier(rows[0].setting, "rci", rows, [], None).matched == ()


def test_reward_only_of_another_experiment_serves_every_noise():
    rows = [
        policy("rci", 0, 0.1, 2.0, noise="noisy", experiment="label-noise"),
        policy("reward-only", 0, 0.5, 10.0),
    ]
    (found,) = paper_summary(rows).experiment("label-noise").frontiers
    assert found.setting.noise == "noisy"
    assert found.curve[-1] == pytest.approx((10.0, 0.5))


def test_a_policy_that_two_experiments_share_counts_once():
    own = [policy("rci", 0, 0.0, 2.0), policy("reward-only", 0, 0.8, 9.0)]
    other = [policy("reward-only", 1, 0.8, 11.0)]
    shared = [one | {"experiment": "composition"} for one in other]  # with the key of the other row
    assert compared_returns(policy_rows([*own, *other, *shared])) == {("highway", "mixed", 0): (2.0, 10.0)}
    assert paper_summary([*own, *other, *shared]).rows == 3


def test_logs_of_another_seed_change_nothing():
    rows = sweep("highway", seeds=2) + sweep("calibration", seeds=2, budgets=("0.1", "0.4"))
    strangers = sweep("ingredients", seeds=3, policies=5, logs_seed=7)
    strangers += [
        policy("rci", 0, 0.0, 90.0, experiment="calibration", logs_seed=7, selected=False),
        policy("reward-only", 0, 0.0, 99.0, experiment="ingredients", logs_seed=7, policy=9),
    ]
    alone, together = paper_summary(rows), paper_summary(rows + strangers)
    for name in ("highway", "frontier"):
        before, after = alone.experiment(name), together.experiment(name)
        assert before.outcomes == tuple(o for o in after.outcomes if o.setting.logs_seed == 0)
        assert before.frontiers == tuple(f for f in after.frontiers if f.setting.logs_seed == 0)
    assert alone.bars == together.bars
    returns = compared_returns(policy_rows(rows + strangers))
    assert returns["highway", "mixed", 0] == compared_returns(policy_rows(rows))["highway", "mixed", 0]
    assert returns["highway", "mixed", 7] != returns["highway", "mixed", 0]


def test_logs_have_seed_0_where_rows_do_not_tell():
    silent = row()
    del silent["logs_seed"]
    assert policy_rows([silent])[0].setting.logs_seed == 0
    assert policy_rows([row(logs_seed=7)])[0].setting.logs_seed == 7


# --- experiments and bars -------------------------------------------------------------------------------------


def test_every_experiment_has_an_answer(study):
    assert all(experiment.rows and experiment.outcomes for experiment in study.experiments)
    assert not any(e.answer == NOT_RUN or "not enough" in e.answer for e in study.experiments)
    assert study.seconds == pytest.approx(41.2 * study.rows)


def test_label_efficiency_is_told_of_the_longest_training():
    def one(method, labelled, updates, rate):
        size = {"labelled": labelled, "updates": updates, "experiment": "label-efficiency"}
        return policy(method, 0, rate, 10.0, **size)

    rows = [
        one("rci", labelled, updates, 0.1) for labelled, updates in ((200, 1000), (200, 4000), (500, 4000))
    ]
    rows += [policy("reward-only", 0, 0.5, 10.0), policy("rci", 0, 0.0, 0.0)]
    answer = paper_summary(rows).experiment("label-efficiency").answer
    assert answer == (
        "With 200 labelled episodes and 4,000 updates on highway: rci 10.0%. "
        "With 500 labelled episodes and 4,000 updates on highway: rci 10.0%."
    )


def test_the_horizon_is_told_by_task():
    rates = {"highway": 0.1, "highway-15hz": 0.2}
    rows = [policy("rci", 0, rate, 5.0, experiment="horizon", task=task) for task, rate in rates.items()]
    answer = paper_summary(rows).experiment("horizon").answer
    assert answer == "Violation rates: highway: rci 10.0%; highway-15hz: rci 20.0%."


def test_ingredients_are_ranked_and_those_that_fall_short_are_named():
    logs = {"experiment": "ingredients", "logs_seed": 7}
    rates = {"sparse": 0.4, "potential": 0.1, "potential, slow": 0.2}
    rows = [policy(method, seed, rate, 8.0, **logs) for method, rate in rates.items() for seed in range(2)]
    rows += [policy("traces", 0, 0.0, 0.0, **logs), policy("reward-only", 9, 0.5, 8.0, **logs)]
    rows += [policy("sparse", 2, 0.0, 0.0, **logs)]
    assert paper_summary(rows).experiment("ingredients").answer == (
        "Violation rates for a return of 6.00, best first: potential 10.0%; potential, slow 20.0%; "
        "sparse 40.0% (2 of 3 seeds). A return of 6.00 is not reached by: traces."
    )


def test_without_rows_everything_is_open():
    summary = paper_summary([])
    assert {e.answer for e in summary.experiments} == {NOT_RUN}
    assert {one.verdict for one in summary.bars} == {OPEN}


@pytest.mark.parametrize("seed", range(6))
def test_any_subset_of_rows_works(seed):
    rows = whole_study(seeds=2)
    kept = np.random.default_rng(seed).permutation(len(rows))[: [1, 3, 10, 40, 150, 400][seed]]
    summary = paper_summary([rows[i] for i in kept])
    assert summary.rows == len(kept)
    assert all(e.answer == NOT_RUN for e in summary.experiments if not e.rows)


def test_some_experiments_show_the_rows_of_another():
    rows = policy_rows(sweep("highway") + sweep("calibration") + sweep("label-efficiency"))
    for name, source in (
        ("frontier", "calibration"),
        ("when-it-pays", "label-efficiency"),
        ("highway", "highway"),
    ):
        assert {r.experiment for r in rows_of_experiment(name, rows)} == {source}


def test_experiments_that_are_not_known_are_shown_too():
    summary = paper_summary([row(experiment="mine")])
    assert summary.experiment("mine").outcomes


def test_a_fifth_is_met_missed_or_open():
    name = "highway: a fifth of the violations"
    rows = [policy("rci", 0, 0.02, 5.0)] + [
        policy(m, 0, 0.1, 5.0) for m in ("sparse", "hazard", "reward-only")
    ]
    assert bar(rows, name).verdict == MET  # 0.02 is just a fifth
    assert bar(rows[:3], name).verdict == OPEN
    assert bar([*rows[:3], policy("reward-only", 0, 0.09, 5.0)], name).verdict == MISSED
    assert "1 seed" in bar(rows, name).evidence


@pytest.mark.parametrize(
    ("own", "verdict"),
    [
        ((5.0, 6.0, 7.0, 5.5, 6.5), MET),
        ((5.0, 6.0, 7.0), OPEN),  # too few to take silence for an answer
        ((9.9, 10.2, 10.5), MET),
        ((2.0, 2.1, 2.2), MISSED),
        ((5.0,), OPEN),
    ],
)
def test_return_is_kept_if_it_is_not_significantly_lower(own, verdict):
    rows = [policy("rci", seed, 0.02, gain) for seed, gain in enumerate(own)]
    rows += [policy("reward-only", seed, 0.5, gain) for seed, gain in enumerate([5.5, 7.0, 8.0, 6.0, 7.5])]
    assert bar(rows, "highway: full return").verdict == verdict


def test_composition_needs_every_dataset_and_both_rivals(study):
    assert next(one for one in study.bars if one.name == "composition").verdict == MET
    rows = sweep("composition", dataset="ppo")
    assert bar(rows, "composition").verdict == OPEN
    for one in rows:
        one["violation_rate"] = 0.5
    assert bar(rows, "composition").verdict == MISSED


def test_matched_returns_need_all_rivals():
    methods = ("sparse", "hazard", "uniform", "rci")
    rows = sweep("highway", methods=methods, seeds=4, policies=3)
    found = bar(rows, "highway: fewer violations at the same return")
    assert found.verdict in (OPEN, MISSED)
    assert "traces: not yet measured" in found.evidence


@pytest.mark.parametrize(("best_of_last_seed", "verdict"), [(10.0, MET), (5.0, OPEN)])
def test_matched_returns_must_be_reached_by_all_seeds(best_of_last_seed, verdict):
    """Without reward-only of the same seed a method has only its own policies."""
    rates = {"rci": 0.01, "sparse": 0.3, "hazard": 0.3, "uniform": 0.3, "traces": 0.3}
    rows = [policy("reward-only", 9, 0.9, 10.0)]
    for method, rate in rates.items():
        for seed in range(3):
            top = best_of_last_seed if (method, seed) == ("sparse", 2) else 10.0
            rows += [policy(method, seed, 0.0, 0.0), policy(method, seed, rate, top, policy=1)]
    found = bar(
        [one | {"experiment": "calibration"} for one in rows], "highway: fewer violations at the same return"
    )
    assert found.verdict == verdict
    assert ("sparse reaches it with 2 of 3 seeds" in found.evidence) == (verdict == OPEN)


def test_methods_are_compared_in_one_setting():
    rows = [policy(m, 0, rate, 5.0) for m, rate in (("rci", 0.5), ("sparse", 0.1), ("hazard", 0.1))]
    longer = [policy(m, 0, rate, 5.0, updates=9000) for m, rate in (("rci", 0.01), ("sparse", 0.1))]
    found = bar(rows + longer, "highway: a fifth of the violations")
    assert (
        found.verdict == OPEN
    )  # with more updates hazard is missing; that of fewer updates does not stand in
    assert "1.0% against 10.0% of sparse" in found.evidence


def test_outcomes_are_held_against_what_is_possible():
    point = ReferencePoint("informed", 30.0, 3, 0.0, 0.0, 0.01, 100.0, 99.0, 101.0, 100.0, None)
    measure = Ruler(0.0, 100.0, point, (point,))
    rows = [policy("reward-only", 0, 0.8, 100.0, budget="inf"), policy("rci", 0, 0.2, 80.0)]
    found = {o.method: o for o in paper_summary(rows, {"highway": measure}).experiment("highway").outcomes}
    assert found["rci"].share_of_way == pytest.approx((0.8 - 0.2 - 0.2) / 0.8)
    assert found["reward-only"].share_of_way is None
    assert outcomes_of(rows)["rci"].share_of_way is None  # nobody measured what is possible


def test_the_rows_are_json():
    assert json.loads(json.dumps(whole_study(1)))
