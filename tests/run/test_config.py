import pytest

from rci.data.errors import RciError
from rci.pipeline.config import load_config, merge, parse_flags, presets_of
from rci.pipeline.plan import check_config, entries, plan
from rci.tasks import TASKS


def test_defaults_then_preset_then_file_then_flags(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[collect]\nepisodes = 77\nrecipe = 'random'\n[learn]\nupdates = 5\n")
    plain = load_config("point", "quick")
    assert plain.collect.recipe == "mixed"  # the default
    assert plain.collect.episodes == 1000  # the preset
    config = load_config("point", "quick", file, ["learn.updates=6", "compare.budgets=[0.3]"], seed=9)
    assert config.collect.episodes == 77
    assert config.collect.recipe == "random"
    assert config.learn["updates"] == 6
    assert config.compare.budgets == (0.3,)
    assert config.seed == 9


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["colect.episodes=3"], "unknown setting in settings 'colect'. Did you mean 'collect'"),
        (["collect.episode=3"], "unknown setting in settings.collect 'episode'. Did you mean 'episodes'"),
        (["collect.episodes=many"], "settings.collect.episodes must be a whole number, not 'many'"),
        (["learn.update=3"], "unknown setting of feasible 'update'. Did you mean 'updates'"),
        (["learn.method=bcq-lagrange"], "unknown learner"),
        (["redistribute.method=ruder"], "unknown redistributor 'ruder'. Did you mean 'rudder'"),
        (["redistribute.loss=last"], "rudder.loss must be one of final, prefix"),
        (["behaviour.hiden=3"], "unknown setting in behaviour 'hiden'. Did you mean 'hidden'"),
        (
            ["compare.methods=['rci', 'sparce']"],
            "unknown method of the comparison 'sparce'. Did you mean 'sparse'",
        ),
        (["learn.updates=0"], "updates must be at least 1, got 0"),
        (["compare.budgets=['P300']"], "percentile budget"),
        (["compare.seeds=0"], "compare.seeds must be at least 1"),
        (["label.noise=loud"], "unknown label noise 'loud'"),
        (["collect.recipe=expert"], "unknown recipe of point 'expert'"),
        (["collect.episodes=0"], "collect.episodes must be at least 1"),
        (["compare.budgets=[]"], "compare.budgets is empty"),
        (["compare.methods=[]"], "compare.methods is empty"),
        (["compare.budgets=[0.1,'0.10']"], "compare.budgets names something twice: 0.1, 0.1"),
        (["compare.methods=['rci','rci']"], "compare.methods names something twice"),
        (["compare.budgets=[5]"], "for 5% write 5% or 0.05"),
        (["compare.budgets=[500%]"], "'500%' would allow everything"),
        (["compare.budgets=[5%,0.05]"], "compare.budgets names something twice: 0.05, 0.05"),
        (["compare.budgets=['near=0.1,off=0.2']"], "by channel, but these costs have no channels"),
        (["compare.budgets=['near=0.1,off']"], "written proximity=0.05,road=P20"),
        (["compare.seeds=5000"], "compare.seeds must be at most 1000"),
        (["learn.method=3"], "unknown learner 3"),
        (["learn.method=bc"], "'bc' knows no budget, so the budgets 0.02, 0.1, 0.3 would be ignored"),
        (["learn.method=cdt", "learn.candidates=3"], "unknown setting of cdt 'candidates'"),
        (["learn.method=bcq-lagrangian", "learn.candidates=0"], "candidates must be at least 1, got 0"),
        (["learn.test_candidates=0"], "test_candidates must be at least 1, got 0"),
        (["compare.budgets=['P30']"], "P30 is a percentile of step costs, but 'feasible'"),
        (["behaviour.updates=0"], "updates must be at least 1, got 0"),
        (["seed=99999999999"], "seed must be 0 to"),
        (["learn.updates"], "written key=value"),
        (["=3"], "written key=value"),
        (["seed=-1"], "seed must be 0 to"),
        (["task=other"], "settings are for the task 'other'"),
    ],
)
def test_mistakes_are_found_before_any_work(flags, message):
    with pytest.raises(RciError, match=message):
        check_config(load_config("point", "quick", None, flags))


def test_budgets_by_channel_are_checked_against_the_task():
    flags = ["compare.methods=['sparse']", "compare.budgets=['road=0.1,proximity=P20', 0.3]"]
    flags.append("learn.method=bcq-lagrangian")
    config = load_config("highway-two", "quick", None, flags)
    check_config(config)
    names = ["sparse-proximity=P20,road=0.1-seed0", "sparse-0.3-seed0"]
    assert [entry.name for entry in entries(config) if entry.seed == 0] == names
    for budget, message in (
        ("proximity=0.1,raod=0.1", "unknown channel in the budget 'raod'. Did you mean 'road'"),
        ("proximity=0.1", "says nothing about road"),
    ):
        with pytest.raises(RciError, match=message):
            check_config(load_config("highway-two", "quick", None, [f"compare.budgets=['{budget}']"]))
    twice = "compare.budgets=['road=0.1,proximity=0.2','proximity=0.20,road=0.1']"
    with pytest.raises(RciError, match="names something twice"):
        check_config(load_config("highway-two", "quick", None, [twice]))


def test_bad_files_and_presets(tmp_path):
    with pytest.raises(RciError, match="no settings file"):
        load_config("point", "quick", tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[collect\n")
    with pytest.raises(RciError, match="cannot be read"):
        load_config("point", "quick", tmp_path / "bad.toml")
    with pytest.raises(RciError, match="unknown preset of point 'quik'. Did you mean 'quick'"):
        load_config("point", "quik")
    assert presets_of("point") == ["paper", "quick"]
    assert presets_of("poin") == []


@pytest.mark.parametrize(
    ("task", "preset"), [(task, preset) for task in TASKS for preset in presets_of(task)]
)
def test_shipped_presets_are_right(task, preset):
    check_config(load_config(task, preset))


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_presets(task):
    assert presets_of(task) == ["paper", "quick"]


def test_flags_are_toml_or_text():
    assert parse_flags(["a.b=3", "a.c=[1, 2]", "d=text", "e='P30'"]) == {
        "a": {"b": 3, "c": [1, 2]},
        "d": "text",
        "e": "P30",
    }
    assert merge({"a": {"b": 1}}, {"a": {"c": 2}}) == {"a": {"b": 1, "c": 2}}


def test_the_plan_shares_work_and_separates_seeds(tmp_path):
    config = load_config("point", "quick", None, ["compare.seeds=2"])
    jobs = {job.name: job for job in plan(config, tmp_path)}
    assert len(jobs) == len(plan(config, tmp_path))
    assert sum(job.stage == "behaviour" for job in jobs.values()) == 1
    # reward-only and sparse share their costs; each learned method has one fit per seed
    assert sum(job.stage == "redistribute" for job in jobs.values()) == 2 * 3
    # one training for each of them serves every budget, and that of sparse reward-only as well
    assert sum(job.stage == "learn" for job in jobs.values()) == 2 * 3
    assert sum(job.stage == "limit" for job in jobs.values()) == len(entries(config)) == 2 * (1 + 3 * 3)
    older = plan(load_config("point", "quick", None, ["learn.method=bcq-lagrangian"]), tmp_path)
    assert sum(job.stage == "learn" for job in older) == 1 + 3 * 3
    assert not any(job.stage == "limit" for job in older)
    for job in jobs.values():
        assert set(job.needs) <= set(jobs)
    # two runs, and the policies of one, are trained and tested with seeds of their own
    seeds = {job.seed for job in jobs.values() if job.stage in ("learn", "evaluate")}
    other = load_config("point", "quick", None, ["compare.seeds=2"], seed=1)
    assert seeds == {0, 1}
    assert not seeds & {job.seed for job in plan(other, tmp_path) if job.stage in ("learn", "evaluate")}


def test_another_learner_keeps_what_it_shares_with_the_preset(tmp_path):
    config = load_config("point", "quick", None, ["learn.method=cdt", "learn.context=4"])
    check_config(config)
    expected = {"method": "cdt", "hidden": 64, "batch_size": 128, "updates": 5000, "context": 4}
    assert config.learn == expected
    check_config(load_config("point", "quick", None, ["learn.method=bc", "compare.budgets=[inf]"]))
    # it needs no behaviour model, so nobody fits one
    jobs = plan(config, tmp_path)
    assert not any(job.stage == "behaviour" or "behaviour" in (*job.needs, *job.inputs) for job in jobs)
    (tmp_path / "own.toml").write_text("[learn]\nmethod = 'bc-safe'\n")
    config = load_config("point", "quick", tmp_path / "own.toml", ["learn.hidden=8"])
    assert config.learn == {"method": "bc-safe", "hidden": 8, "batch_size": 128, "updates": 5000}


def test_rci_and_its_redistributor_by_name_may_differ(tmp_path):
    flags = ["compare.methods=['rudder','rci']", "redistribute.loss=prefix"]
    jobs = {job.name: job for job in plan(load_config("point", "quick", None, flags), tmp_path)}
    assert jobs["costs-rudder-seed0"].settings == {"method": "rudder"}
    assert jobs["costs-rci-seed0"].settings["loss"] == "prefix"
    assert jobs["train-rci-seed0"].inputs["costs"] == jobs["costs-rci-seed0"].output


def test_a_budget_in_quotes_is_the_same_budget():
    config = load_config(
        "point", "quick", None, ["compare.budgets=['0.10', 'p30']", "compare.methods=['rci']"]
    )
    assert [entry.budget for entry in entries(config)] == [0.1, "P30"]


def test_another_redistributor_keeps_of_the_preset_what_it_has_too():
    assert (
        load_config("point", "quick", None, ["redistribute.method=transformer"]).redistribute["epochs"] == 30
    )
    assert load_config("point", "quick", None, ["redistribute.method=uniform"]).redistribute == {
        "method": "uniform"
    }


def test_a_section_that_is_no_table_is_told(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("learn = 3\n")
    with pytest.raises(RciError, match="settings.learn must be a table, not 3"):
        load_config("point", "quick", file, ["learn.updates=3"])
