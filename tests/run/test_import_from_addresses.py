"""`rci import` from addresses: what is fetched, what is refused, and how it goes on when it was interrupted."""

from __future__ import annotations

import fsspec
import pytest
from typer.testing import CliRunner

import rci
from rci.cli.main import app
from rci.data.errors import RciError
from rci.pipeline.commands import remote_dataset
from rci.pipeline.commands.conversion import import_to
from rci.pipeline.commands.remote_dataset import fetched, name_of

LOG = "run,obs,action,reward\n" + "".join(f"{run},{t},{t / 10},1\n" for run in "abc" for t in range(50))


@pytest.fixture(params=["memory", "s3"])
def address(request, tmp_path):
    """A folder of two logs, one file of a kind that is not read, and a hidden one."""
    if request.param == "s3":
        request.getfixturevalue("object_server")
    folder = f"{request.param}://rci-tests/{tmp_path.name}/logs"
    system, root = fsspec.core.url_to_fs(folder)
    for name, text in (("1.csv", LOG), ("2.csv", LOG.upper().replace("RUN,OBS,ACTION,REWARD", LOG[:21])),
                       ("notes.txt", "x"), (".hidden", "x")):  # fmt: skip
        system.pipe_file(f"{root}/{name}", text.encode())
    return folder


def run(source, out, **options):
    settings = {"data_format": None, "mapping": None, "cost_above": None, "progress": lambda share: None}
    return import_to(source, out, **{**settings, **options})


def test_a_folder_and_a_file_at_an_address(address, tmp_path):
    done = CliRunner().invoke(app, ["import", address, "--out", str(tmp_path / "episodes")])
    assert done.exit_code == 0, done.output
    assert "these files are no logs and are not read: notes.txt" in done.output
    episodes = rci.load(tmp_path / "episodes")
    assert episodes.keys == {"file": ["1.csv"] * 3 + ["2.csv"] * 3, "run": list("abcABC")}
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "1.csv").write_text(LOG)
    told, _ = run(f"{address}/1.csv", tmp_path / "one")
    assert told["episodes"] == 3
    assert rci.load(tmp_path / "one").hash == rci.read_logs(tmp_path / "here" / "1.csv").hash
    assert {path.name for path in tmp_path.iterdir()} == {"episodes", "one", "here"}


def test_it_goes_on_where_it_was(tmp_path, monkeypatch):
    folder = f"memory://box/{tmp_path.name}"
    system, root = fsspec.core.url_to_fs(folder)
    for name in ("1.csv", "2.csv"):
        system.pipe_file(f"{root}/{name}", LOG.replace("a,", f"{name}-a,").encode())
    monkeypatch.setattr(remote_dataset, "BLOCK", 100)
    asked = []
    read = type(system).cat_file

    def cat_file(self, path, start=None, end=None, **rest):
        asked.append((path.rpartition("/")[2], start))
        if len(asked) == 12:
            raise OSError("the network is away")
        return read(self, path, start=start, end=end, **rest)

    monkeypatch.setattr(type(system), "cat_file", cat_file)
    with pytest.raises(RciError, match="cannot read memory://box.*the network is away"):
        run(folder, tmp_path / "out", mapping=None)
    assert not (tmp_path / "out").exists()
    first = asked[:]
    with pytest.raises(
        RciError, match=r"episode 'b' is in memory://box/.*/1\.csv already.*What was fetched is kept"
    ):
        run(folder, tmp_path / "out")
    assert asked[12:][0] == first[11]  # nothing is fetched twice
    assert len(set(asked)) == len(asked) - 1
    (tmp_path / "m.toml").write_text("episodes_per_file = true\n")
    count = len(asked)
    told, _ = run(folder, tmp_path / "out", mapping=tmp_path / "m.toml")
    assert (told["episodes"], len(asked)) == (6, count)
    assert not list(tmp_path.glob(".*"))


def test_what_changed_is_fetched_anew(tmp_path):
    folder = f"memory://box/{tmp_path.name}"
    system, root = fsspec.core.url_to_fs(folder)
    system.pipe_file(f"{root}/1.csv", b"run,obs,action,reward\na,,1,1\na,1,1,1\n")
    with pytest.raises(RciError, match="1 value is missing"):
        run(f"{folder}/1.csv", tmp_path / "out")
    system.pipe_file(f"{root}/1.csv", LOG.encode())
    assert run(f"{folder}/1.csv", tmp_path / "out")[0]["episodes"] == 3
    with pytest.raises(RciError, match="was changed while it was fetched"), monkey(system, root):
        run(f"{folder}/1.csv", tmp_path / "other")


class monkey:  # noqa: N801, somebody who writes while we read
    def __init__(self, system, root):
        self.system, self.root, self.read = system, root, type(system).cat_file

    def __enter__(self):
        def cat_file(system, path, **rest):
            content = self.read(system, path, **rest)
            system.pipe_file(f"{self.root}/1.csv", (LOG + "c,50,5,1\n").encode())
            return content

        type(self.system).cat_file = cat_file

    def __exit__(self, *error):
        type(self.system).cat_file = self.read


class Hostile:
    """A file system that says whatever it likes."""

    protocol = "evil"

    def __init__(self, entries, content=b"x" * 100):
        self.entries, self.content = entries, content

    def invalidate_cache(self):
        pass

    def isfile(self, root):
        return False

    def find(self, root, detail):
        return self.entries

    def checksum(self, path):
        return 1

    def cat_file(self, path, start, end):
        return self.content


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"root/../../x.csv": {"size": 1}}, "whose name leads elsewhere"),
        ({"/etc/passwd": {"size": 1}}, "whose name leads elsewhere"),
        ({"root//x.csv": {"size": 1}}, "whose name leads elsewhere"),
        ({"root/x.csv": {"size": 1, "islink": True}}, "x.csv is a link"),
        ({"root/x.csv": {"size": None}}, "nobody says how long x.csv is"),
        ({"root/x.csv": {"size": 1 << 60}}, "only .* MB are free there; make room"),
        ({"root/x.csv": {"size": 50}}, "x.csv is not as long as it should be"),
        ({}, "there is nothing at evil://root"),
        ({f"root/{i}.csv": {"size": 0} for i in range(4)}, "more than 3 files"),
    ],
)
def test_hostile_stores(entries, message, tmp_path, monkeypatch):
    monkeypatch.setattr(remote_dataset, "open_address", lambda url: (Hostile(entries), "root"))
    monkeypatch.setattr(remote_dataset, "MOST_FILES", 3)
    with pytest.raises(RciError, match=message), fetched("evil://root", tmp_path / "out", lambda share: None):
        pass
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("s3://me:secret@box/a.csv", "must not have a password"),
        ("https://host/a.csv?X-Amz-Signature=abc", "must not have a secret"),
        ("https://host/a.csv?token=abc", "must not have a secret"),
        ("zip://a.csv::s3://box/a.zip", "is a chain of addresses"),
        ("nonsense://box/a.csv", "'nonsense://box/a.csv' is not an address of a store"),
        ("memory://box/none.csv", "there is nothing at memory://box/none.csv"),
    ],
)
def test_wrong_addresses(source, message, tmp_path):
    with pytest.raises(RciError, match=message) as caught:
        run(source, tmp_path / "out")
    assert "abc" not in str(caught.value)
    assert "secret@" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_path_of_this_machine_is_a_path(tmp_path):
    (tmp_path / "a.csv").write_text(LOG)
    with pytest.raises(RciError, match=r"is on this machine: give its path, .*a\.csv"):
        run(f"file://{tmp_path}/a.csv", tmp_path / "out")


def test_names_of_addresses():
    assert name_of("s3://box/logs/june/") == "june"
    assert name_of("s3://box") == "box"
    assert name_of("https://host/a.csv?version=3") == "a.csv"
