"""The page and the tables of the paper's experiments."""

import csv
import io
import re
from dataclasses import replace

import pytest
from paper_rows import row, sweep, under_best_learner

from rci.data.errors import RciError
from rci.reporting.figures.palette import sheet
from rci.reporting.figures.picture import render
from rci.reporting.paper import page as paper_page
from rci.reporting.paper.page import page, write_paper
from rci.reporting.paper.tables import PaperTable, claim_table, experiment_tables, paper_tables
from rci.studies.paper.findings.summary import paper_summary


def picture(name="critics", section="highway"):
    return replace(render(name, "Maps <of> costs", "Dark is dangerous", lambda: sheet(1.0)), section=section)


@pytest.fixture(scope="module")
def summary():
    composition = [row for name in ("ppo", "mixed") for row in sweep("composition", dataset=name, seeds=2)]
    return paper_summary(sweep("highway", seeds=2) + composition)


def page_of(summary, pictures=()):
    return page(summary, pictures, paper_tables(summary))


def test_every_experiment_has_a_section_and_what_was_not_run_says_so(summary):
    text = page_of(summary)
    for experiment in summary.experiments:
        assert f'<section id="{experiment.name}"' in text
    section = text.partition('id="horizon"')[2].partition("</section>")[0]
    assert "Not run yet." in section
    assert "<table" not in section


def test_the_page_tells_question_answer_and_how_many_seeds(summary):
    section = page_of(summary).partition('<section id="highway"')[2].partition("</section>")[0]
    highway = summary.experiment("highway")
    assert highway.question in section
    assert highway.answer in section
    assert f"{highway.rows} evaluated policies, seeds 0, 1." in section


def test_claims_are_told_plainly(summary):
    section = page_of(summary).partition('<section id="claims"')[2].partition("</section>")[0]
    assert '<span class="no">does not hold</span>' in section
    assert "not yet measured" in section
    assert all(claim.name in section for claim in summary.claims)


def test_the_page_shows_the_command_that_made_it(summary, tmp_path):
    assert "<code>rci paper --preset full</code>" in page_of(summary)
    small = "rci paper --preset smoke --out 'a & b'"
    text = write_paper(paper_summary([]), [], tmp_path, command=small).read_text()
    assert "<code>rci paper --preset smoke --out &#39;a &amp; b&#39;</code>" in text
    assert "--preset full" not in text


def test_pictures_stand_in_their_section(summary):
    text = page_of(summary, [picture(), picture("films", "elsewhere")])
    assert "Maps &lt;of&gt; costs" in text.partition('<section id="highway"')[2].partition("</section>")[0]
    assert "More pictures" in text


def test_the_page_fetches_nothing(summary):
    text = page_of(summary, [picture()])
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert "<script" not in text


def test_names_are_escaped():
    text = page_of(paper_summary([row(method="<b>", experiment="<i>")]))
    assert "<b>" not in text
    assert "&lt;b&gt;" in text


def test_everything_is_written_and_twice_the_same(tmp_path):
    summary = paper_summary([row(), row(method="reward-only", budget="inf")])
    index = write_paper(summary, [picture()], tmp_path / "a")
    again = write_paper(summary, [picture()], tmp_path / "b")
    assert index == tmp_path / "a" / "index.html"
    files = {path.relative_to(tmp_path / "a") for path in index.parent.rglob("*") if path.is_file()}
    names = {str(path) for path in files}
    assert {
        f"figures/{name}.{ending}" for name in ("highway", "critics") for ending in ("pdf", "svg", "png")
    } <= names
    assert {f"tables/{name}.{ending}" for name in ("highway", "claims") for ending in ("md", "csv")} <= names
    for path in files:
        assert (index.parent / path).read_bytes() == (again.parent / path).read_bytes(), path


def test_without_rows_there_is_a_page(tmp_path):
    index = write_paper(paper_summary([]), [], tmp_path)
    assert index.read_text().count("Not run yet.") == len(paper_summary([]).experiments)


def test_two_pictures_of_one_name_are_refused(tmp_path):
    with pytest.raises(RciError, match="'critics'"):
        write_paper(paper_summary([]), [picture(), picture()], tmp_path)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RciError, match="cannot write the paper"):
        write_paper(paper_summary([]), [], tmp_path / "file")


def test_seeds_in_words():
    assert paper_page._listed((0, 1, 2)) == "0 to 2"
    assert paper_page._listed((0, 2)) == "0, 2"


# --- tables ---------------------------------------------------------------------------------------------------


def cells_of(table: PaperTable, **where: str) -> dict[str, str]:
    lines = [dict(zip(table.headers, line)) for line in table.cells]
    (found,) = (line for line in lines if all(line[key] == value for key, value in where.items()))
    return found


def test_an_outcome_in_words():
    rows = [
        row(seed=s, violation_rate=rate, mean_return=gain)
        for s, (rate, gain) in enumerate([(0.01, 40), (0.03, 42)])
    ]
    rows += [
        row(method="reward-only", budget="inf", seed=s, violation_rate=0.4, mean_return=50) for s in range(2)
    ]
    outcomes, contrasts, _ = experiment_tables(paper_summary(rows).experiment("highway"))
    found = cells_of(outcomes, method="rudder")
    assert found["violation rate"] == "2.0% ± 1.0"
    assert found["95% interval"] == "1.4–2.7%"
    assert found["return"] == "41.00 ± 1.00"
    assert found["seeds"] == "2"
    assert cells_of(outcomes, method="reward-only")["budget"] == "none"
    against = cells_of(contrasts, method="rudder")
    assert against["violations, ratio to reward-only"].startswith("0.050 (")
    assert against["return, difference to reward-only"] == "−9.00 (p 0.070)"


def test_one_seed_has_no_error_in_the_table():
    (table,) = experiment_tables(paper_summary([row()]).experiment("highway"))
    assert cells_of(table, method="rudder")["violation rate"] == "3.0%"


def test_a_return_without_a_scale_has_no_normalised_one():
    summary = paper_summary([row(return_norm=None), row(return_norm=None, method="sparse")])
    (table, _) = experiment_tables(summary.experiment("highway"))
    assert cells_of(table, method="rudder")["normalised return"] == "–"
    assert "–" in page_of(summary)


def test_settings_have_a_column_where_they_differ(summary):
    tables = {table.name: table for table in experiment_tables(summary.experiment("composition"))}
    assert set(tables) == {"composition", "composition-contrasts", "composition-matched"}
    assert tables["composition"].headers[0] == "setting"
    assert {line[0] for line in tables["composition"].cells} == {"ppo data", "mixed data"}
    found = cells_of(tables["composition-matched"], setting="ppo data", method="rudder")
    assert re.fullmatch(
        r"[\d.]+% ± [\d.]+ \([\d.]+–[\d.]+%\) at [\d.]+, asked [\d.]+", found["50% of the way up"]
    )
    assert re.fullmatch(r"[\d.]+% ± [\d.]+, 2 seeds", found["area"])


def test_matched_cells_tell_the_return_that_was_had_and_the_seeds_that_reach_it():
    def one(method, seed, rate, gain, chosen_for):
        budget = "inf" if method == "reward-only" else "T5"
        return row(
            experiment="best-learner", learner="feasible", method=method, seed=seed, budget=budget, violation_rate=rate,
            selection_violation_rate=rate, mean_return=gain, selection_return=chosen_for,
        )  # fmt: skip

    rows = [
        one("rudder", 0, 0.1, 80.0, 100.0),
        one("rudder", 1, 0.0, 0.0, 0.0),
        one("reward-only", 2, 0.5, 90.0, 100.0),
    ]
    (table,) = experiment_tables(paper_summary(rows).experiment("best-learner"))
    found = cells_of(table, method="rudder")
    assert found["75% of the way up"].startswith("10.0% (")
    assert found["75% of the way up"].endswith(" at 80.0, asked 75.0, 1 of 2 seeds")
    assert found["area"] == "10.0%, 1 of 2 seeds"


def test_a_return_that_is_not_reached_is_told():
    rows = under_best_learner("best-learner", seeds=1)
    lost = {"experiment": "when-it-pays", "learner": "feasible", "budget": "T5", "labelled": 9}
    rows.append(row(selection_return=1.0, **lost))
    (table,) = experiment_tables(paper_summary(rows).experiment("when-it-pays"))
    assert all("not reached" in cell for cell in table.cells[0][3:6])
    assert table.cells[0][6] == "–"


def test_where_methods_are_compared_at_the_same_return_nothing_is_selected():
    summary = paper_summary(under_best_learner("best-learner", seeds=2) + sweep("highway", seeds=2))
    tables = paper_tables(summary)
    assert [table.name for table in tables["best-learner"]] == ["best-learner-matched"]
    assert [table.name for table in tables["highway"]] == ["highway", "highway-contrasts", "highway-matched"]


def test_tables_as_markdown_and_csv():
    table = PaperTable("x", "X", ("a", "b"), (("1,5", "3|−2"),))
    assert table.markdown() == "| a | b |\n| --- | --- |\n| 1,5 | 3\\|−2 |\n"
    assert list(csv.reader(io.StringIO(table.csv()))) == [["a", "b"], ["1,5", "3|-2"]]


def test_every_table_says_what_seeds_share(summary):
    tables = [table for group in paper_tables(summary).values() for table in group]
    assert all("Every seed has a recording, a behaviour model" in table.note for table in tables)


def test_every_claim_is_in_the_table(summary):
    table = claim_table(summary)
    assert table.headers == ("where", "claimed", "verdict", "measured")
    expected = [(claim.name, claim.claimed, claim.verdict, claim.measured) for claim in summary.claims]
    assert list(table.cells) == expected


def test_the_headline_counts_claims(summary):
    told = paper_page.headline(summary)[1]
    verdicts = [claim.verdict for claim in summary.claims]
    assert told.startswith(f"Of {len(verdicts)} claims: ")
    for word, words in (
        ("holds", "hold"), ("does not hold", "do not hold"), ("not yet measured", "not yet measured"),
    ):  # fmt: skip
        assert (f"{verdicts.count(word)} {words}" in told) == (word in verdicts)
