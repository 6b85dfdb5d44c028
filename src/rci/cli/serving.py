"""`rci serve`: reads what is to be labelled, makes the queue, and hands both to the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from rci.data.disk.cache import cache_folder
from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.store import read, read_manifest, write_file
from rci.data.types import Episodes, Labels, StepCosts
from rci.formats.lerobot.cameras import read_camera
from rci.formats.lerobot.info import is_lerobot
from rci.labeling.people.answers import UNSURE
from rci.labeling.people.files import read_answers
from rci.labeling.people.sessions.queue import Order
from rci.labeling.rules import rule_labels
from rci.labeling.server import Exhibit
from rci.labeling.server import serve as serve_exhibit
from rci.labeling.server.pictures import Pictures, open_clips, open_pictures
from rci.labeling.server.video import Clip
from rci.pipeline.companions import oracle_of
from rci.tasks import TASKS, get
from rci.tasks.base import Task


@dataclass(frozen=True)
class Request:
    """What somebody asked to be served."""

    episodes: Path
    folder: Path  # of the session
    annotators: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int | None = None
    order: str = "sequential"
    seed: int = 0
    gold: Path | None = None
    repeats: float = 0.0
    votes: int | None = None
    costs: Path | None = None
    frames: Path | None = None
    shown_as: str | None = None  # the task whose drawing is used
    rate: float | None = None
    instructions: str = ""
    reveal: bool = False
    new_links: bool = False
    browser: bool = False
    kinds: tuple[str, ...] | None = None  # of danger; None, those of the session
    severity: bool = False
    takeovers: bool = False
    show_stops: bool = False
    stops: Path | None = None  # labels with the stops that are shown; None, those beside the episodes
    camera: str | None = None  # of a LeRobot folder


def split_names(text: str | None) -> tuple[str, ...] | None:
    """Names between commas; None where nothing was given."""
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


def serve(request: Request, say: Callable[[str], None]) -> None:
    """Read what is asked for, and serve until interrupted. say: prints a line for the user, such as the links."""
    episodes = read(request.episodes, "episodes")
    exhibit = make_exhibit(request, episodes, say)
    gold = None if request.gold is None else known_stops(request.gold, episodes)
    uncertainty = uncertainties(request, episodes, say) if request.order == "uncertain" else None
    serve_exhibit(
        exhibit,
        request.folder,
        annotators=request.annotators,
        order=Order(request.order, request.seed, (), request.repeats, uncertainty),
        gold=gold,
        votes=request.votes,
        kinds=request.kinds,
        rate=request.rate,
        host=request.host,
        port=request.port,
        new_links=request.new_links,
        browser=request.browser,
        say=say,
    )


def known_stops(path: Path, episodes: Episodes) -> dict[int, int]:
    """The stop index of each episode that a file names, -1 where it is safe."""
    answers = read_answers(path, episodes.lengths, "gold")
    return {answer.episode: answer.stop_index for answer in answers if answer.verdict != UNSURE}


def make_exhibit(request: Request, episodes: Episodes, say: Callable[[str], None]) -> Exhibit:
    """What can be shown: the film, and for reviews and revelations what is known about the episodes."""
    task = _task(request, episodes)
    pictures = _pictures(request, episodes, say)
    costs, stops = _costs(request, episodes)
    rule, unsafe = None, None
    if request.reveal:
        if task is not None and episodes.obs.shape[1:] == task.obs_shape:
            rule = rule_labels(episodes, task.name).stop_index
        if (oracle_of(request.episodes) / "manifest.json").is_file():
            oracle = read(oracle_of(request.episodes), "oracle")
            oracle.check_parent(episodes)
            unsafe = np.split(oracle.unsafe, np.cumsum(oracle.lengths)[:-1])
        if rule is None and unsafe is None:
            raise RciError(
                "there is nothing to reveal: the episodes are of no known task and have no oracle."
            )
    return Exhibit(
        episodes, task, pictures, costs, stops, rule, unsafe, request.instructions, _recorded_stops(request, episodes),
        request.severity, request.takeovers,
    )  # fmt: skip


def uncertainties(request: Request, episodes: Episodes, say: Callable[[str], None]) -> Array:
    """How uncertain a fitted redistributor is of each episode; computed once, so that the next start is quick."""
    if request.costs is None:
        raise RciError(
            "the order 'uncertain' asks a fitted redistributor: name its step costs with --costs (rci redistribute)."
        )
    parents = f"{read_manifest(request.costs)['hash'][:16]}-{episodes.hash[:16]}"
    kept = cache_folder() / "uncertainty" / f"{parents}.npy"
    if not kept.is_file():
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RciError(
                f"cannot write {kept.parent}: {error.strerror or error}; set RCI_CACHE to a folder that can be written."
            ) from None
        say("Asking the redistributor how sure it is of each episode ...")
        from rci.redistribution import uncertainty

        buffer = BytesIO()
        np.save(buffer, uncertainty(read(request.costs, "costs"), episodes), allow_pickle=False)
        write_file(kept, buffer.getvalue())
    return np.asarray(np.load(kept, allow_pickle=False))


def _pictures(request: Request, episodes: Episodes, say: Callable[[str], None]) -> Pictures | None:
    """Pictures of the episodes: from a LeRobot folder, those of one of its cameras."""
    if request.frames is None or not is_lerobot(request.frames):
        if request.camera is not None:
            raise RciError("--camera names a camera of a LeRobot folder; name that folder with --frames.")
        return None if request.frames is None else open_pictures(request.frames, episodes.lengths)
    camera = read_camera(request.frames, episodes, request.camera)
    counts = [
        None if clip.end is None else round((clip.end - clip.begin) * camera.rate) for clip in camera.clips
    ]
    also = f"; --camera shows another one: {', '.join(camera.others)}" if camera.others else ""
    say(f"The camera is {camera.name}{also}.")
    short = [i for i, count in enumerate(counts) if count is not None and count < episodes.lengths[i]]
    if short:
        say(
            f"The camera is shorter than its signals in {len(short)} of {len(episodes)} episodes, not shown: "
            f"episode {short[0]} has {counts[short[0]]} pictures for {episodes.lengths[short[0]]} steps."
        )
    clips = [Clip(clip.path, camera.rate, clip.begin, count) for clip, count in zip(camera.clips, counts)]
    return open_clips(request.frames, episodes.lengths, clips)


def _costs(request: Request, episodes: Episodes) -> tuple[list[Array] | None, Array | None]:
    """Step costs for reviews, if they are of these episodes; costs of others can still say what is uncertain."""
    if request.costs is None:
        return None, None
    costs: StepCosts = read(request.costs, "costs")
    made_from = read_manifest(request.costs)["provenance"]["parents"].get("episodes", episodes.hash)
    if made_from != episodes.hash or len(costs) != len(episodes) or (costs.lengths > episodes.lengths).any():
        if request.order == "uncertain":
            return None, None
        raise RciError(f"{request.costs} has step costs of other episodes; they cannot be shown with these.")
    stopped = costs.episodic_cost.reshape(len(costs), -1).sum(axis=1) > 0
    return np.split(costs.total, costs.step_offset[1:-1]), np.where(stopped, costs.lengths - 1, -1)


def _recorded_stops(request: Request, episodes: Episodes) -> Array | None:
    """Where the logs say that somebody stopped, if that is to be shown."""
    if not request.show_stops and request.stops is None:
        return None
    beside = request.episodes.resolve()
    place = request.stops or beside.with_name(f"{beside.name}-labels")
    if request.stops is None and not (place / "manifest.json").is_file():
        raise RciError(
            f"--show-stops needs labels beside the episodes, in {place}; or name them with --stops LABELS."
        )
    labels: Labels = read(place, "labels")
    labels.check_parent(episodes)
    return labels.stop_index


def _task(request: Request, episodes: Episodes) -> Task | None:
    if request.shown_as is not None:
        return get(request.shown_as)
    return TASKS.get(episodes.task)
