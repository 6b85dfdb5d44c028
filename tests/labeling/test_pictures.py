"""Pictures of episodes: from files, from videos, and from observations that are pictures themselves."""

from __future__ import annotations

import io
import os
import struct
import sys
import zlib
from fractions import Fraction
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from rci.data.errors import RciError
from rci.data.types import Episode, Episodes
from rci.labeling.server import pictures as pictures_module
from rci.labeling.server import video as video_module
from rci.labeling.server.films import film_of, picture_at
from rci.labeling.server.image_files import JPEG, PNG, look_at, picture_of
from rci.labeling.server.pictures import Pictures, open_pictures
from rci.tasks import TASKS

av = pytest.importorskip("av")


def grey(level: int, height: int = 4, width: int = 6) -> np.ndarray:
    return np.full((height, width), level, np.uint8)


def jpeg(pixels: np.ndarray) -> bytes:
    """A JPEG made by FFmpeg from RGB."""
    encoder = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height, encoder.pix_fmt = pixels.shape[1], pixels.shape[0], "yuvj444p"
    encoder.time_base, encoder.options = Fraction(1, 25), {"qmin": "1", "qmax": "1"}
    frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(
        format="yuvj444p", dst_color_range="JPEG"
    )
    return b"".join(bytes(packet) for packet in [*encoder.encode(frame), *encoder.encode(None)])


def pixels_of(data: bytes) -> np.ndarray:
    """What a picture shows, decoded by FFmpeg."""
    with av.open(io.BytesIO(data)) as container:
        return next(container.decode(video=0)).to_ndarray(format="rgb24")


def write_video(
    path: Path, frames: list[np.ndarray], codec: str = "libx264", turn: int = 0, **options: str
) -> None:
    with av.open(str(path), "w", options=options) as container:
        stream = container.add_stream(codec, rate=30)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt, stream.bit_rate = "yuv420p", 4_000_000
        if turn:
            stream.set_display_rotation(turn)
        for pixels in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())


def levels(count: int) -> list[np.ndarray]:
    """Frames whose grey says which one they are: 5 k."""
    return [np.full((32, 48, 3), 5 * k, np.uint8) for k in range(count)]


def folder_of(root: Path, name: str, count: int, first: int = 0, pattern: str = "{}.png") -> Path:
    """Pictures whose grey is 5 k."""
    folder = root / name
    folder.mkdir()
    for k in range(count):
        (folder / pattern.format(first + k)).write_bytes(picture_of(grey(5 * k)))
    return folder


def shown(pictures: Pictures, episode: int, index: int) -> float:
    """Which picture it is, from its grey."""
    return float(pixels_of(pictures.picture(episode, index)[0]).mean()) / 5


def with_size(png: bytes, width: int, height: int) -> bytes:
    """The same picture with another size in its header."""
    header = b"IHDR" + struct.pack(">II", width, height) + png[24:29]
    return png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:]


# PNG and JPEG


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 3), (1, 1), (40, 33, 3)])
def test_a_png_shows_its_pixels(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    expected = pixels if shape[2:] == (3,) else np.repeat(pixels.reshape(*shape[:2], 1), 3, axis=2)
    data = picture_of(pixels)
    assert pixels_of(data).tolist() == expected.tolist()
    assert look_at(data, "it") == (PNG, shape[1], shape[0])


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((4, 4)), np.zeros(16, np.uint8), np.zeros((4, 4, 4), np.uint8), np.zeros((0, 4), np.uint8)],
)
def test_other_arrays_are_no_picture(pixels: np.ndarray) -> None:
    with pytest.raises(RciError, match="a picture is uint8"):
        picture_of(pixels)


def test_a_jpeg_is_known_by_its_bytes() -> None:
    assert look_at(jpeg(np.zeros((24, 40, 3), np.uint8)), "it") == (JPEG, 40, 24)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda png: png[:-5], "breaks off"),
        (lambda png: png[:20], "breaks off"),
        (lambda png: png[:40] + b"xx" + png[42:], "damaged"),
        (lambda png: b"GIF89a" + png, "neither PNG nor JPEG"),
        (lambda png: b"", "neither PNG nor JPEG"),
        (lambda png: b"<svg onload='alert(1)'/>", "neither PNG nor JPEG"),
        (lambda png: png[:8] + png[33:], "damaged"),  # no header
        (lambda png: with_size(png, 0, 4), "no size"),
        (lambda png: jpeg(np.zeros((8, 8, 3), np.uint8))[:-2], "breaks off"),
        (lambda png: jpeg(np.zeros((8, 8, 3), np.uint8))[:30], "breaks off"),
        (lambda png: b"\xff\xd8\xff\xe0\x00\x04abcdefgh", "damaged"),
    ],
)  # fmt: skip
def test_broken_pictures_are_refused(damage, reason: str, tmp_path: Path) -> None:
    with pytest.raises(RciError, match=rf"^it cannot be shown: .*{reason}.*\.$"):
        look_at(damage(picture_of(grey(9))), "it")


@pytest.mark.parametrize("side", [9_000, 20_000])
def test_a_small_file_that_would_unpack_to_very_many_pixels_is_refused(side: int) -> None:
    """The bytes are few; what they claim to be is refused before anything is unpacked."""
    with pytest.raises(RciError, match=r"^it cannot be shown: it has more than \d+ pixels\.$"):
        look_at(with_size(picture_of(grey(9)), side, side), "it")


# Folders of files


def test_pictures_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    folder_of(tmp_path, "0", 12, pattern="frame{}.png")  # 10 comes after 9, not after 1
    folder_of(tmp_path, "01", 11, first=1, pattern="cam2_{:04d}_left.png")
    (tmp_path / "01" / "notes.txt").write_text("no picture")
    (tmp_path / "01" / "._cam2_0001_left.png").write_bytes(b"of a Mac")
    pictures = open_pictures(tmp_path, np.array([11, 11]))
    assert [pictures.count(0), pictures.count(1)] == [12, 11]
    assert [shown(pictures, 0, k) for k in (0, 2, 9, 10, 11)] == [0, 2, 9, 10, 11]
    assert [shown(pictures, 1, k) for k in (10, 0, 9)] == [10, 0, 9]
    assert pictures.size(0) == (6, 4)


def test_bytes_are_passed_on_and_named_by_what_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "0"
    folder.mkdir()
    png, photo = picture_of(grey(3)), jpeg(np.zeros((8, 8, 3), np.uint8))
    (folder / "0.PNG").write_bytes(photo)  # the suffix lies
    (folder / "1.jpeg").write_bytes(png)
    pictures = open_pictures(tmp_path, np.array([1]))
    assert pictures.picture(0, 0) == (photo, JPEG)
    assert pictures.picture(0, 1) == (png, PNG)
    for index in (-1, 2):
        with pytest.raises(RciError, match=f"episode 0 has the pictures 0 to 1, got {index}"):
            pictures.picture(0, index)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["0.png", "2.png", "3.png"], r"no picture between 0\.png and 2\.png"),
        (["0.png", "1.png", "01.png"], "two pictures with number 1"),
        (["2.png", "3.png", "4.png"], r"begin with number 0 or 1, but the first is 2\.png"),
        (["a.png", "b.png", "c.png"], "must be numbered in one way"),
        (["0.png", "1_1.png", "2.png"], "must be numbered in one way"),
        (["0_5.png", "1_6.png", "2_7.png"], "2 of them differ"),
        (["0.png"], "must hold 3 pictures, one for every moment, or 2, one for every step; it holds 1"),
        (["0.png", "1.png", "2.png", "3.png"], "it holds 4"),
        ([], "it holds 0"),
    ],
)
def test_pictures_that_do_not_add_up_are_refused(names: list[str], reason: str, tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    for name in names:
        (tmp_path / "0" / name).write_bytes(picture_of(grey(0)))
    pictures = open_pictures(tmp_path, np.array([2]))
    with pytest.raises(RciError, match=reason):
        pictures.count(0)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "0", 3)
    (folder / "1.png").write_text("<html>")
    pictures = open_pictures(tmp_path, np.array([2]))
    assert shown(pictures, 0, 2) == 2
    with pytest.raises(RciError, match=r"0/1\.png cannot be shown: it is neither PNG nor JPEG"):
        pictures.picture(0, 1)
    (folder / "2.png").unlink()
    with pytest.raises(RciError, match=r"no file .*2\.png any more"):
        pictures.picture(0, 2)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_of(tmp_path, "0", 2)
    monkeypatch.setattr(pictures_module, "MOST_BYTES", 20)
    with pytest.raises(RciError, match="too much for one picture"):
        open_pictures(tmp_path, np.array([1])).picture(0, 0)


def test_links_may_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    secret = folder_of(tmp_path, "secret", 2)
    root = tmp_path / "frames"
    root.mkdir()
    folder_of(root, "0", 1)
    (root / "0" / "1.png").symlink_to(secret / "1.png")
    (root / "1").symlink_to(secret, target_is_directory=True)
    (root / "2").symlink_to(root / "0", target_is_directory=True)
    (root / "3.mp4").symlink_to("/dev/zero")
    (root / "4.mp4").symlink_to("4.mp4")
    pictures = open_pictures(root, np.array([1, 1, 1, 1, 1]))
    assert shown(pictures, 0, 0) == 0
    assert shown(pictures, 2, 0) == 0  # a link that stays inside is fine
    for episode, index in ((0, 1), (1, 0), (3, 0), (2, 1)):
        with pytest.raises(RciError, match="leads out of"):
            pictures.picture(episode, index)
    with pytest.raises(RciError, match=r"4\.mp4"):
        pictures.picture(4, 0)


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    for name in ("0/0.png", "1.mp4"):
        os.mkfifo(tmp_path / name)  # reading it would wait for ever
    pictures = open_pictures(tmp_path, np.array([1, 1]))
    for episode in (0, 1):
        with pytest.raises(RciError, match="there is no file"):
            pictures.picture(episode, 0)


# The folder of all episodes


def test_every_episode_needs_pictures(tmp_path: Path) -> None:
    folder_of(tmp_path, "1", 2)
    (tmp_path / "0.png").write_bytes(b"")
    (tmp_path / "2").write_text("no folder")
    with pytest.raises(
        RciError, match=r"no pictures of 5 of 6 episodes: 0, 2, 3, \.\.\..* folder 0/, .* video 0\.mp4"
    ):
        open_pictures(tmp_path, np.full(6, 1))
    with pytest.raises(RciError, match="there is no folder"):
        open_pictures(tmp_path / "nowhere", np.array([1]))


def test_two_sources_or_an_episode_too_many_are_refused(tmp_path: Path) -> None:
    folder_of(tmp_path, "0", 2)
    folder_of(tmp_path, "7", 2)
    with pytest.raises(RciError, match=r"7 belongs to no episode: they are numbered 0 to 0"):
        open_pictures(tmp_path, np.array([1]))
    (tmp_path / "7").rename(tmp_path / "00")
    with pytest.raises(RciError, match="episode 0 has its pictures in .* twice: 0 and 00"):
        open_pictures(tmp_path, np.array([1]))


def test_at_the_start_only_one_folder_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(300):
        (tmp_path / f"{i:04d}").mkdir()
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or scandir(path))
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(path))
    pictures = open_pictures(tmp_path, np.full(300, 5))
    assert len(pictures.sources) == 300
    assert listed == [tmp_path.resolve()]


# Videos


@pytest.mark.parametrize(
    ("suffix", "codec"), [(".mp4", "libx264"), (".MOV", "mpeg4"), (".mkv", "libx264"), (".webm", "libvpx")]
)
def test_a_video_is_a_list_of_pictures(suffix: str, codec: str, tmp_path: Path) -> None:
    write_video(tmp_path / f"0{suffix}", levels(41), codec)
    pictures = open_pictures(tmp_path, np.array([40]))
    assert pictures.count(0) == 41
    assert pictures.size(0) == (48, 32)
    for index in np.random.default_rng(0).permutation(41).tolist():
        data, media_type = pictures.picture(0, index)
        assert media_type == JPEG
        assert pixels_of(data).mean() / 5 == pytest.approx(
            index, abs=0.45
        )  # nearer to its own than to any other


def test_frames_that_refer_to_later_ones_come_in_the_order_of_showing(tmp_path: Path) -> None:
    path = tmp_path / "0.mp4"
    rng, count = np.random.default_rng(0), 30
    noise = rng.integers(0, 30, (32, 48, 3))
    write_video(path, [(noise + 5 * k).astype(np.uint8) for k in range(count)])
    with av.open(str(path)) as container:
        sent = [packet.pts for packet in container.demux(video=0) if packet.pts is not None]
    assert sent != sorted(sent)  # otherwise this would test nothing
    pictures = open_pictures(tmp_path, np.array([count]))
    means = [pixels_of(pictures.picture(0, k)[0]).mean() for k in range(count)]
    assert np.abs(np.array(means) - noise.mean() - 5 * np.arange(count)).max() < 2.4


def test_colours_survive(tmp_path: Path) -> None:
    colours = [(220, 30, 40), (20, 200, 60), (30, 60, 210), (255, 255, 255), (0, 0, 0)]
    write_video(tmp_path / "0.mp4", [np.full((32, 48, 3), colour, np.uint8) for colour in colours])
    pictures = open_pictures(tmp_path, np.array([4]))
    for k, colour in enumerate(colours):
        assert pixels_of(pictures.picture(0, k)[0]).mean((0, 1)) == pytest.approx(colour, abs=6)


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_a_sideways_video_is_turned(turn: int, tmp_path: Path) -> None:
    pixels = np.zeros((32, 48, 3), np.uint8)
    pixels[:16, :24] = 255  # the upper left
    write_video(tmp_path / "0.mp4", [pixels] * 2, turn=turn)
    pictures = open_pictures(tmp_path, np.array([1]))
    upright = pixels_of(pictures.picture(0, 0)[0])
    assert np.abs(upright.astype(int) - np.rot90(pixels, turn // 90)).mean() < 6
    assert pictures.size(0) == ((32, 48) if turn != 180 else (48, 32))


@pytest.mark.parametrize(("frames", "said"), [(9, "it holds 9"), (14, "it holds at least 12")])
def test_a_video_of_another_length_is_refused(frames: int, said: str, tmp_path: Path) -> None:
    write_video(tmp_path / "0.mp4", levels(frames))
    with pytest.raises(RciError, match=f"must hold 11 pictures.*or 10.*{said}"):
        open_pictures(tmp_path, np.array([10])).count(0)


@pytest.mark.parametrize(
    "damage",
    [
        lambda video: video[: len(video) // 2],
        lambda video: b"",
        lambda video: b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n",
        lambda video: video.replace(b"avc1", b"abcd"),
        lambda video: video[:44] + bytes(8) + video[52:],
    ],
)
def test_a_broken_video_is_named(damage, tmp_path: Path) -> None:
    path = tmp_path / "0.mp4"
    rng = np.random.default_rng(0)
    write_video(path, list(rng.integers(0, 256, (10, 32, 48, 3)).astype(np.uint8)))
    path.write_bytes(damage(path.read_bytes()))
    pictures = open_pictures(tmp_path, np.array([9]))
    for _ in range(2):  # the second time as well: nothing half-read was kept
        with pytest.raises(RciError, match=r"0\.mp4 (cannot be read as a video|has no video in it)"):
            pictures.picture(0, 0)


def test_a_picture_that_is_cut_off_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "0.mp4"
    noise = np.random.default_rng(0).integers(0, 256, (10, 32, 48, 3)).astype(np.uint8)
    write_video(path, list(noise), "mpeg4", movflags="faststart")  # what is where stands at the beginning
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(RciError, match=r"0\.mp4 is damaged at picture 9"):
        open_pictures(tmp_path, np.array([9])).count(0)


def test_sound_alone_is_no_video(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "0.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with pytest.raises(RciError, match="has no video in it"):
        open_pictures(tmp_path, np.array([1])).count(0)


def test_without_pyav_the_cure_is_named_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    folder_of(tmp_path, "0", 2)
    assert open_pictures(tmp_path, np.array([1])).count(0) == 2  # files do without it
    (tmp_path / "1.mp4").write_bytes(b"")
    with pytest.raises(RciError, match=r"pip install 'rci\[video\]'"):
        open_pictures(tmp_path, np.array([1, 1]))


def test_threads_decode_a_video_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_video(tmp_path / "0.mp4", levels(21))
    pictures, decoded, seen = open_pictures(tmp_path, np.array([20])), [], {}
    decode = video_module.decode_video
    monkeypatch.setattr(
        pictures_module, "decode_video", lambda *given: decoded.append(given) or decode(*given)
    )
    threads = [
        Thread(target=lambda k=k: seen.update({k: pictures.picture(0, k)[0]})) for k in range(0, 21, 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(decoded) == 1
    assert {k: round(pixels_of(data).mean() / 5) for k, data in seen.items()} == {
        k: k for k in range(0, 21, 2)
    }


def test_the_cache_forgets_what_was_not_used_for_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(3):
        write_video(tmp_path / f"{i}.mp4", levels(3))
    pictures, decoded = open_pictures(tmp_path, np.full(3, 2)), []
    decode = video_module.decode_video
    monkeypatch.setattr(
        pictures_module,
        "decode_video",
        lambda path, *given: decoded.append(path.name) or decode(path, *given),
    )
    pictures.count(0)
    pictures.cache_bytes = 2 * sum(len(pictures.picture(0, k)[0]) for k in range(3)) + 100
    for i in (1, 0, 2, 0, 1):
        assert pictures.count(i) == 3
    assert decoded == ["0.mp4", "1.mp4", "2.mp4", "1.mp4"]
    pictures.cache_bytes = 0
    assert shown(pictures, 2, 1) == pytest.approx(
        1, abs=0.4
    )  # too large for the cache, and shown nevertheless


# Films


def images(shape: tuple[int, ...], dtype: type = np.uint8, steps: int = 3, task: str = "") -> Episodes:
    rng = np.random.default_rng(0)
    obs = rng.integers(0, 256, (2, steps + 1, *shape)).astype(dtype)
    still = np.zeros((steps, 1)), np.zeros(steps)
    return Episodes.from_list([Episode(one, *still, False, True) for one in obs], task)


@pytest.mark.parametrize("shape", [(8, 12), (8, 12, 1), (8, 12, 3)])
def test_observations_that_are_pictures_are_shown(shape: tuple[int, ...]) -> None:
    episodes = images(shape)
    film = film_of(episodes, 1, None, None)
    assert (film.kind, film.facts) == ("pictures", {"count": 4, "width": 12, "height": 8})
    data, media_type = picture_at(episodes, 1, 2, None)
    assert media_type == PNG
    assert pixels_of(data)[..., 0].tolist() == episodes[1].obs[2].reshape(8, 12, -1)[..., 0].tolist()
    with pytest.raises(RciError, match="episode 1 has the pictures 0 to 3, got 4"):
        picture_at(episodes, 1, 4, None)


@pytest.mark.parametrize(
    ("shape", "dtype"), [((8, 12), np.float32), ((8,), np.uint8), ((3, 8, 12), np.uint8)]
)
def test_other_observations_are_signals(shape: tuple[int, ...], dtype: type) -> None:
    episodes = images(shape, dtype)
    assert film_of(episodes, 0, None, None).kind == "signals"
    with pytest.raises(RciError, match="no pictures"):
        picture_at(episodes, 0, 0, None)


def test_pictures_come_before_everything_else(tmp_path: Path) -> None:
    episodes = images((5, 7), np.float32, task="highway")
    for i in range(2):
        folder_of(tmp_path, str(i), 3)
    pictures = open_pictures(tmp_path, episodes.lengths)
    film = film_of(episodes, 1, TASKS["highway"], pictures)
    assert (film.kind, film.facts) == ("pictures", {"count": 3, "width": 6, "height": 4})
    assert picture_at(episodes, 1, 2, pictures) == (picture_of(grey(10)), PNG)


def test_a_task_draws_also_what_another_simulator_recorded() -> None:
    episodes = images((51, 7), np.float32)
    assert film_of(episodes, 0, None, None).kind == "signals"
    film = film_of(episodes, 0, TASKS["highway"], None)
    assert film.kind == "road"
    assert film.arrays["cars"].shape == (4, 51, 7)
    with pytest.raises(RciError, match="cannot be shown as 'point'"):
        film_of(episodes, 0, TASKS["point"], None)
