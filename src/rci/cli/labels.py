"""The commands `rci serve` and `rci labels ...`: people label, and what is done with their answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rci.pipeline.commands.command_line import AsJson, Out, Overwrite, Seed, print_json, print_text

labels = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Compare, export and import what people answered in `rci serve`.\n\n"
    "Example: rci labels agreement runs/demo/answers",
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the labeling session.")]


def serve(
    episodes: Annotated[Path, typer.Argument(help="Episodes to label.")],
    folder: Annotated[Path, typer.Option("--labels", metavar="DIR", help="Folder that keeps every answer.")],
    annotator: Annotated[
        list[str], typer.Option(metavar="NAME", help="Who labels; may be repeated, each gets an own link.")
    ] = [],  # noqa: B006 (typer copies it)
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port [8765, or a free one].")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 opens it to the network.")
    ] = "127.0.0.1",
    order: Annotated[
        str, typer.Option(help="sequential, random, or uncertain (most uncertain first, needs --costs).")
    ] = "sequential",
    gold: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV or JSONL: episodes whose stop_index is known, mixed in."),
    ] = None,
    repeats: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the episodes that are shown a second time.")
    ] = 0.0,
    votes: Annotated[
        int | None, typer.Option(min=1, help="Answers that an episode needs [one of every annotator].")
    ] = None,
    costs: Annotated[
        Path | None, typer.Option(help="Step costs: for reviews and the order uncertain.")
    ] = None,
    frames: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Pictures: DIR/EPISODE/*.png, DIR/EPISODE.mp4, or a LeRobot folder."
        ),
    ] = None,
    camera: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which camera of a LeRobot folder [its first].")
    ] = None,
    shown_as: Annotated[
        str | None, typer.Option("--as", metavar="TASK", help="Draw as this task [the episodes' own].")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.01, max=1000, help="Steps per second at speed 1 [as recorded, or 10]."),
    ] = None,
    instructions: Annotated[
        str, typer.Option(metavar="TEXT", help="What to call unsafe; the page shows it.")
    ] = "",
    kinds: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Kinds of danger to choose from, such as proximity,speed."),
    ] = None,
    severity: Annotated[
        bool, typer.Option("--severity", help="Ask how bad it was: a quarter to all of the cost.")
    ] = False,
    takeovers: Annotated[
        bool,
        typer.Option("--takeovers", help="Ask where a person took over, and where the machine drives again."),
    ] = False,
    show_stops: Annotated[
        bool, typer.Option("--show-stops", help="Show the stops of the logs, from EPISODES-labels.")
    ] = False,
    stops: Annotated[
        Path | None, typer.Option(metavar="LABELS", help="Show the stops of these labels instead.")
    ] = None,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="The page may show what rule and oracle say.")
    ] = False,
    new_links: Annotated[
        bool, typer.Option("--new-links", help="Give everybody a new link; old ones end.")
    ] = False,
    browser: Annotated[bool, typer.Option("--open", help="Open the first link in a browser.")] = False,
    seed: Seed = 0,
) -> None:
    """Label episodes in the browser: watch, press S where it becomes unsafe, Enter if it never does.

    Every answer is on the disk before the next episode appears. The same command goes on where it was.

    Example: rci serve runs/demo/episodes --labels runs/demo/answers --annotator ann --annotator bob
    """
    if order == "uncertain":
        from rci.engines.cores import prepare_process

        prepare_process()  # one core, before anything imports JAX
    from rci.cli.serving import Request, split_names
    from rci.cli.serving import serve as run_server

    run_server(
        Request(
            episodes, folder, tuple(annotator), host, port, order, seed, gold, repeats, votes, costs, frames,
            shown_as, rate, instructions, reveal, new_links, browser, split_names(kinds), severity, takeovers,
            show_stops, stops, camera,
        ),
        typer.echo,
    )  # fmt: skip


@labels.command()
def agreement(folder: Folder, as_json: AsJson = False) -> None:
    """How well annotators agree with each other, with themselves and with gold episodes, and how late they press.

    Example: rci labels agreement runs/demo/answers --json
    """
    from rci.cli.label_sessions import report_agreement

    found, text = report_agreement(folder)
    print_json(found) if as_json else print_text(text)


@labels.command(name="export")
def export_labels(
    folder: Folder,
    episodes: Annotated[
        Path | None, typer.Argument(help="The episodes that were labeled; not needed with --answers.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="A .csv or .jsonl file, or a folder for labels.")],
    answers: Annotated[
        bool, typer.Option("--answers", help="Every answer by itself, instead of one label for each episode.")
    ] = False,
    quorum: Annotated[
        int | None, typer.Option(min=1, help="Annotators who must say the same [more than half].")
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Shift stops back by each annotator's reaction time.")
    ] = False,
    annotator: Annotated[
        list[str], typer.Option(metavar="NAME", help="Only this annotator; may be repeated.")
    ] = [],  # noqa: B006
    missing: Annotated[
        str, typer.Option(help="Episodes without a label: refuse, drop, or count them as safe.")
    ] = "refuse",
    no_kinds: Annotated[
        bool,
        typer.Option("--no-kinds", help="Count every stop alike, without a channel for each kind of danger."),
    ] = False,
    takeovers: Annotated[
        bool, typer.Option("--takeovers", help="When a person drove, as takeovers, in place of labels.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """One label for each episode by quorum, as labels for `rci redistribute` or as a file; or all answers as a file.

    With --missing drop, the episodes that have a label are written to OUT-episodes, and OUT belongs to those.

    Example: rci labels export runs/demo/answers runs/demo/episodes --calibrate --out runs/demo/labels
    """
    from rci.cli.label_sessions import Wish, write_export

    wish = Wish(out, episodes, answers, quorum, calibrate, tuple(annotator), missing, no_kinds, takeovers)
    found, text = write_export(folder, wish)
    print_json(found) if as_json else print_text(text)


@labels.command(name="import")
def import_labels(
    folder: Folder,
    source: Annotated[Path, typer.Argument(help="A .csv or .jsonl file, or a folder of labels.")],
    annotator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose answers they are, if the file does not say.")
    ] = None,
    episodes: Annotated[Path | None, typer.Option(help="The episodes, to begin a new session.")] = None,
    as_json: AsJson = False,
) -> None:
    """Bring in answers or labels that were given elsewhere, to compare, review and join them.

    Example: rci labels import runs/demo/answers monitor.csv --annotator monitor
    """
    from rci.cli.label_sessions import import_answers

    found, text = import_answers(folder, source, annotator, episodes)
    print_json(found) if as_json else print_text(text)


@labels.command(name="takeovers")
def cut_takeovers(
    episodes: Annotated[Path, typer.Argument(help="Runs in which a person took over.")],
    takeovers: Annotated[Path, typer.Argument(help="Who drove when in them.")],
    out: Out,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Cut runs at takeovers: OUT has labels, and they belong to what the machine drove, which is in OUT-episodes.

    A machine segment counts as stopped at its last step before a person took over. What the person drove is in
    OUT-human, for `rci learn --demonstrations`. Keys of the segments have the number of the run and the first step.

    Example: rci labels takeovers runs/car/episodes runs/car/takeovers --out runs/car/labels
    """
    from rci.cli.command_jobs import Shown, run_here
    from rci.pipeline.trainings import cut_jobs

    jobs = cut_jobs(episodes, takeovers, out)
    run_here(jobs, Shown(as_json, overwrite=overwrite), [job.output for job in jobs])
