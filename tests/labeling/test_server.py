"""The HTTP interface of a real server: what it tells, what it refuses, and that no label is lost or doubled."""

from __future__ import annotations

import errno
import json
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import ragged, sparse_costs
from film_reader import parse_film
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import COMMAND, Client, Server, server

import rci
from rci.cli.serving import Request, serve
from rci.data.errors import RciError
from rci.labeling.people.sessions.session import read_session
from rci.labeling.server import listen
from rci.labeling.server.fields import FIELDS
from rci.labeling.server.image_files import picture_of
from rci.labeling.server.listen import MOST_CONNECTIONS

EPISODES = ragged([5, 3, 8, 4])


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One server for all requests that change nothing, or are refused."""
    with server(
        tmp_path_factory.mktemp("server"), EPISODES, "--annotator", "ann", "--annotator", "bob"
    ) as one:
        yield one


@pytest.fixture
def client(running):
    return running.client("ann")


def test_the_session_tells_who_and_what_next(client):
    session = client.get("api/session")
    assert session["annotator"] == "ann"
    assert (session["done"], session["total"], session["undoable"]) == (0, 4, False)
    assert (session["costs"], session["reveal"], session["rate"]) == (False, False, 10.0)
    item = client.get(f"api/items/{session['next']}")
    assert (item["position"], item["total"], item["steps"], item["answer"]) == (0, 4, 5, None)
    assert item["before"] is None
    assert "episode" not in item
    assert item["film"] == {"kind": "signals"}


def test_a_film_is_what_was_recorded(client):
    key = client.get("api/session")["next"]
    status, body = client.request("GET", f"api/items/{key}/film")
    film = parse_film(body)
    assert status == 200
    assert film.kind == "signals"
    np.testing.assert_array_equal(film.arrays["obs"], EPISODES[0].obs)


def test_every_answer_is_guarded(client):
    client.request("GET", "")
    assert "default-src 'none'" in client.headers["Content-Security-Policy"]
    assert client.headers["X-Content-Type-Options"] == "nosniff"
    assert client.headers["Referrer-Policy"] == "no-referrer"
    assert client.headers["Server"] is None


@pytest.mark.parametrize(
    "path", ["/s/wrong/", "/s/wrong/api/session", "/s//api/session", "/s/%C3%A9/", "/s/%00/"]
)
def test_a_wrong_token_opens_nothing(client, path):
    status, _ = client.request("GET", path)
    assert status in (403, 404)


def test_a_wrong_token_changes_nothing(client):
    origin = {"Origin": f"http://{client.link.netloc}", "Content_Type": "application/json"}
    body = json.dumps({"id": "12345678"}).encode()
    status, answer = client.request("POST", "/s/wrong/api/undo", body, **origin)
    assert status == 403
    assert b"not valid" in answer


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example", "169.254.1.1"]
)
def test_foreign_names_are_refused(client, host):
    assert client.request("GET", "api/session", Host=host)[0] == 403


def test_loopback_names_are_not(client):
    port = client.link.port
    for name in (f"localhost:{port}", f"127.0.0.1:{port}"):
        assert client.request("GET", "api/session", Host=name)[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "https://127.0.0.1", "http://127.0.0.1"]
)
def test_foreign_pages_change_nothing(client, origin):
    status, answer = client.post("api/undo", {"id": "12345678"}, Origin=origin)
    assert status == 403
    assert "Origin" in answer["error"]


@pytest.mark.parametrize(
    "path",
    [
        "../../../etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e/app.py",
        "static/index.html",
        "app.py",
        "api/items/..%2f..%2fx/film",
        "api/items/0/film",
        "api/items/%00/pictures/0",
        "/etc/passwd",
        "/",
        "/../../etc/passwd",
        "/s/",
    ],
)
def test_paths_lead_nowhere(client, path):
    status, body = client.request("GET", path)
    assert status in (403, 404)
    assert b"root:" not in body
    assert b"import" not in body


@pytest.mark.parametrize("index", ["-1", "x", "1e3", "99999999999999999999", "9", "%2e%2e"])
def test_pictures_that_are_not_there(client, index):
    key = client.get("api/session")["next"]
    assert client.request("GET", f"api/items/{key}/pictures/{index}")[0] in (400, 404)


@pytest.mark.parametrize("what", ["costs", "truth"])
def test_what_would_give_it_away_is_not_there(client, what):
    key = client.get("api/session")["next"]
    assert client.request("GET", f"api/items/{key}/{what}")[0] == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"null", 400),
        (b"\xff\xfe", 400),
        (b"[" * 4000, 400),
        (b'{"id": NaN}', 400),
        (b"x" * 5000, 413),
        (b"x" * 3_000_000, 413),
    ],
)
def test_bodies_that_are_no_request(client, body, status):
    try:
        found, answer = client.post("api/answers", body)
    except (BrokenPipeError, ConnectionResetError):
        assert status == 413  # refused before it was sent to the end
        return
    assert found == status
    assert answer["error"].endswith(".")


@pytest.mark.parametrize(
    "change",
    [
        {"id": 5},
        {"id": "short"},
        {"id": "with space and more"},
        {"item": None},
        {"verdict": "stopp"},
        {"verdict": None},
        {"verdict": "stop"},
        {"verdict": "stop", "stop_index": -1},
        {"verdict": "stop", "stop_index": 5},
        {"verdict": "stop", "stop_index": 1.5},
        {"verdict": "stop", "stop_index": True},
        {"verdict": "stop", "stop_index": 10**30},
        {"seconds": -1},
        {"seconds": "1"},
        {"pace": 1e300},
        {"watched": None},
        {"review": 1},
        {"annotator": "bob"},
        {"note": 5},
        {"note": "x" * 401},
        {"note": "two\nlines"},
        {"note": "\ud800"},
        {"severity": 0.5},
        {"takeovers": [[0, 1]]},
        {"verdict": "stop", "stop_index": 1, "kinds": ["near"]},
        {"verdict": "stop", "stop_index": 1, "severity": 0.5},
    ],
)
def test_wrong_fields_are_named(client, change):
    body = {"id": "an-id-of-mine", "item": client.get("api/session")["next"], "verdict": "safe"}
    status, answer = client.post("api/answers", body | {"seconds": 1, "pace": 0, "watched": 1} | change)
    assert status == 400
    assert answer["error"].endswith(".")


def test_items_of_somebody_else_are_unknown(running, client):
    assert client.answer("an-id-of-mine", running.client("bob").get("api/session")["next"])[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("DELETE", "api/session", 405),
        ("PUT", "", 405),
        ("POST", "api/session", 405),
        ("GET", "api/answers", 405),
    ],
)
def test_wrong_methods(client, method, path, status):
    headers = {"Origin": f"http://{client.link.netloc}", "Content_Type": "application/json"}
    assert client.request(method, path, b"{}", **headers)[0] == status


def test_a_request_without_a_length_or_of_another_type(client):
    origin = f"http://{client.link.netloc}"
    assert client.request("POST", "api/undo", b"{}", Origin=origin, Content_Type="text/plain")[0] == 415
    with socket.create_connection((client.link.hostname, client.link.port)) as raw:
        raw.sendall(
            f"POST {client.link.path}api/undo HTTP/1.1\r\nHost: {client.link.netloc}\r\nOrigin: {origin}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n".encode()
        )
        assert b"411" in raw.recv(100)


@pytest.mark.parametrize(
    "junk", [b"\0\0\0\0\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 100_000, b"GET\r\n\r\n"]
)
def test_what_is_not_http_does_no_harm(client, junk):
    with socket.create_connection((client.link.hostname, client.link.port), timeout=10) as raw:
        try:
            raw.sendall(junk)
            raw.shutdown(socket.SHUT_WR)
            raw.recv(200)
        except OSError:
            pass
    assert client.get("api/session")["annotator"] == "ann"


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["GET", "POST", "HEAD", "PATCH"]),
    path=st.sampled_from(["", "api/answers", "api/undo", "api/items/", "api/session"]),
    tail=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30),
    body=st.one_of(
        st.binary(max_size=300),
        st.dictionaries(
            st.sampled_from(sorted(FIELDS)),
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
        ).map(lambda fields: json.dumps(fields).encode()),
    ),
)
def test_no_request_makes_the_server_stumble(client, method, path, tail, body):
    headers = {"Origin": f"http://{client.link.netloc}", "Content_Type": "application/json"}
    status, _ = client.request(method, path + tail, body, **headers)
    assert 200 <= status < 500


@pytest.fixture(scope="module")
def asking(tmp_path_factory):
    """A server that asks for everything, where some episodes are gold and some come twice."""
    folder = tmp_path_factory.mktemp("asking")
    (folder / "gold.csv").write_text("episode,stop_index\n3,1\n")
    options = [
        "--kinds",
        "near, fast",
        "--severity",
        "--takeovers",
        "--gold",
        str(folder / "gold.csv"),
        "--repeats",
        "1",
    ]
    with server(folder, EPISODES, "--annotator", "ann", "--annotator", "bob", *options) as one:
        yield one


def test_what_is_asked_for_is_told(asking, client):
    told = asking.client("ann").get("api/session")
    assert (told["kinds"], told["severity"], told["takeovers"], told["stops"]) == (
        ["near", "fast"],
        True,
        True,
        False,
    )
    told = client.get("api/session")
    assert (told["kinds"], told["severity"], told["takeovers"]) == ([], False, False)


def test_remarks_come_back_and_the_list_tells_only_what_was_said(asking):
    client = asking.client("ann")
    before = client.get("api/items")
    assert before["total"] == len(before["items"]) > len(EPISODES)
    assert all(set(item) == {"key", "position"} for item in before["items"])
    first = client.get("api/session")["next"]
    steps = client.get(f"api/items/{first}")["steps"]
    said = {"kinds": ["fast"], "severity": 0.5, "takeovers": [[0, 1], [1, steps]], "note": "\U0001f415" * 400}
    many = {"takeovers": [[i, i + 1] for i in range(steps)]}
    assert client.answer("many-takeovers", first, "unsure", **many)[0] == 200
    body = {
        "id": "all-there-is",
        "item": first,
        "verdict": "stop",
        "stop_index": 1,
        "seconds": 1,
        "pace": 5,
        "watched": 1,
    }
    body = json.dumps({**body, **said}, ensure_ascii=False).encode()  # as a browser writes it
    assert client.post("api/answers", body)[0] == 200
    shown = {"verdict": "stop", "stop_index": 1, **said}
    assert client.get(f"api/items/{first}")["answer"] == shown
    after = client.get("api/items")
    assert [item for item in after["items"] if item["key"] == first] == [
        {"key": first, "position": 0, **shown}
    ]
    # Its repetition stands where it stood, and is no different from the others: the list does not grow by it.
    others = [[item for item in found["items"] if item["key"] != first] for found in (before, after)]
    assert others[0] == others[1]
    assert [item["key"] for item in asking.client("bob").get("api/items")["items"]] != [
        i["key"] for i in after["items"]
    ]
    assert client.post("api/undo", {"id": "the-first-undo"})[0] == 200
    assert client.post("api/undo", {"id": "the-second-undo"})[0] == 200
    assert client.get("api/items") == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kinds": []}, "which kind of danger it was: near, fast"),
        ({"kinds": ["neer"]}, "unknown kind of danger 'neer'. Did you mean 'near'"),
        ({"kinds": ["near", "near"]}, "once"),
        ({"kinds": "near"}, "a list of names"),
        ({"kinds": [["near"]]}, "1 to 30 letters"),
        ({"severity": 0}, "above 0 and at most 1"),
        ({"severity": True}, "above 0 and at most 1"),
        ({"severity": "1"}, "above 0 and at most 1"),
        ({"takeovers": [[0, 99]]}, "cannot last up to step 99"),
        ({"takeovers": [[0, 2], [1, 3]]}, "must not overlap"),
        ({"takeovers": [[0, 1]] * 65}, "at most 64 takeovers"),
        ({"takeovers": {"0": 1}}, "pairs of whole numbers"),
        ({"verdict": "safe"}, "only a stop has kinds of danger"),
        ({"note": "\u202etxet"}, "U+202E"),
    ],
)
def test_wrong_remarks_are_named(asking, change, message):
    client = asking.client("ann")
    body = {"stop_index": 0, "kinds": ["near"], "verdict": "stop", **change}
    status, answer = client.answer("an-id-of-mine", client.get("api/session")["next"], **body)
    assert status == 400
    assert message in answer["error"]


def test_the_stops_of_the_logs_are_shown_only_where_that_is_asked_for(tmp_path, client):
    assert "recorded_stop" not in client.get(f"api/items/{client.get('api/session')['next']}")
    rci.save(rci.label(EPISODES, [2, None, 4, None]), tmp_path / "episodes-labels")
    with server(tmp_path, EPISODES, "--show-stops", "--order", "sequential") as one:
        told = one.client().get("api/session")
        assert told["stops"] is True
        item = one.client().get(f"api/items/{told['next']}")
        assert item["recorded_stop"] == 2
        assert one.client().get(f"api/items/{item['after']}")["recorded_stop"] == -1
    rci.save(EPISODES, tmp_path / "alone")
    for wrong, message in (
        ({"show_stops": True, "repeats": 0.5}, "would measure nobody: leave --show-stops out"),
        ({"stops": tmp_path / "episodes"}, "holds 'episodes', but 'labels' is needed"),
        (
            {"show_stops": True, "episodes": tmp_path / "alone"},
            "needs labels beside the episodes, in .*alone-labels",
        ),
    ):
        given = {"episodes": tmp_path / "episodes", "folder": tmp_path / "others", "port": 0} | wrong
        with pytest.raises(RciError, match=message):
            serve(Request(**given), print)
        assert not (tmp_path / "others").exists()


def label_all(client: Client, prefix: str) -> list[str]:
    """Answer everything, each item once and then a second time under the same id; the keys in order."""
    keys = []
    state = client.get("api/session")
    while state["next"] is not None:
        keys.append(state["next"])
        for _ in range(2):
            status, state = client.answer(f"{prefix}-number-{len(keys)}", keys[-1], "stop", stop_index=0)
            assert status == 200
    return keys


def test_answers_are_saved_once_however_often_they_come(tmp_path):
    with server(tmp_path, EPISODES, "--annotator", "ann") as one:
        keys = label_all(one.client(), "ann")
        assert len(set(keys)) == 4
        client = one.client()
        state = client.get("api/session")
        assert (state["done"], state["next"]) == (4, None)
        assert state["last"] == keys[3]
        assert client.answer("ann-number-1", keys[1])[0] == 409
        status, undone = client.post("api/undo", {"id": "the-first-undo"})
        assert (status, undone["item"], undone["next"], undone["done"]) == (200, keys[3], keys[3], 3)
        assert (undone["taken"], undone["last"]) == (True, keys[2])
        assert client.post("api/undo", {"id": "the-first-undo"})[1]["item"] == keys[3]
        assert one.stop() == 0
    assert "3 labels are saved" in one.said
    assert [a.stop_index for a in read_session(tmp_path / "answers").answers()] == [0, 0, 0]


def test_a_killed_server_has_lost_nothing_and_links_and_ids_go_on(tmp_path):
    one = server(tmp_path, EPISODES, "--annotator", "ann").start()
    client, links = one.client(), one.links
    key = client.get("api/session")["next"]
    assert client.answer("the-first-id", key)[0] == 200
    port = str(client.link.port)
    one.stop(signal.SIGKILL)
    with server(tmp_path, EPISODES, "--annotator", "ann", "--port", port) as again:
        assert again.links == links
        client = again.client()
        assert client.get("api/session")["done"] == 1
        assert client.answer("the-first-id", key)[0] == 200
        assert client.get("api/session")["done"] == 1
        assert client.get(f"api/items/{key}")["answer"] == {"verdict": "safe", "stop_index": -1}


def test_an_undo_reaches_what_is_not_in_the_queue_any_more(tmp_path):
    with server(tmp_path, EPISODES, "--repeats", "1") as one:
        assert len(label_all(one.client(), "with-repeats")) > len(EPISODES)
    with server(tmp_path, EPISODES) as again:
        _, undone = again.client().post("api/undo", {"id": "the-first-undo"})
        assert (undone["taken"], undone["item"], undone["done"]) == (True, None, len(EPISODES))


def test_what_is_wrong_with_files_is_told_in_the_terminal_and_not_on_the_page(tmp_path):
    for episode, steps in enumerate(EPISODES.lengths):
        (tmp_path / "frames" / str(episode)).mkdir(parents=True)
        for k in range(steps + (episode == 0)):
            content = picture_of(np.zeros((4, 4), np.uint8)) if episode == 0 else b"broken"
            (tmp_path / "frames" / str(episode) / f"{k}.png").write_bytes(content)
    with server(tmp_path, EPISODES, "--frames", str(tmp_path / "frames")) as one:
        client = one.client()
        first = client.get("api/session")["next"]
        second = client.get(f"api/items/{first}")["after"]
        assert client.request("GET", f"api/items/{first}/pictures/5")[0] == 200
        for _ in range(3):
            status, body = client.request("GET", f"api/items/{second}/film")
            assert status == 404
            assert b"terminal" in body
            assert str(tmp_path).encode() not in body
        told = one.errors.read_text()
        assert told.count("Episode 1 is not shown: ") == 1
        assert f"{tmp_path}/frames/1/0.png cannot be shown" in told

        journal = tmp_path / "answers" / "answers.jsonl"
        for number in range(10):  # longer than the terminal, to which the same limit applies
            assert client.answer(f"answer-{number}", first)[0] == 200
        full = journal.stat().st_size + 10
        resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
        status, answer = client.answer("while-it-is-full", first)
        assert status == 503
        assert str(tmp_path) not in answer["error"]
        assert f"cannot write {journal}: " in one.errors.read_text()
        resource.prlimit(
            one.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )
        assert client.answer("while-it-is-full", first)[0] == 200


def test_a_second_server_on_the_same_answers_is_refused(tmp_path):
    with server(tmp_path, EPISODES) as one:
        done = subprocess.run(one.command, capture_output=True, text=True)
        assert done.returncode == 2
        assert "in use" in done.stderr


def test_the_network_is_warned_of(tmp_path):
    with server(tmp_path, EPISODES, "--host", "0.0.0.0") as one:
        assert "Warning: 0.0.0.0 can be reached" in one.said
        port = one.client().link.port
        client = Client(f"http://127.0.0.1:{port}{one.client().link.path}")
        assert client.get("api/session")["total"] == 4
        assert client.request("GET", "api/session", Host="evil.example")[0] == 403


def test_whoever_is_slow_keeps_nobody_out(tmp_path):
    one = server(tmp_path, EPISODES)
    one.command[2] = f"from rci.labeling.server import listen; listen.PATIENCE = 0.3; {COMMAND[2]}"
    half = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000\r\n\r\n{"
    with one:
        client = one.client()
        address = (client.link.hostname, client.link.port)
        slow = [socket.create_connection(address) for _ in range(MOST_CONNECTIONS + 10)]
        for i, connection in enumerate(slow):
            connection.sendall((half, half[:20], b"")[i % 3])
        time.sleep(1.0)
        assert client.get("api/session")["total"] == len(EPISODES)
        time.sleep(1.0)
        assert client.get("api/session")["total"] == len(EPISODES)  # a quick one may rest in between
        for connection in slow:
            connection.close()


def test_the_sixth_version_of_addresses(tmp_path):
    with server(tmp_path, EPISODES, "--host", "::1") as one:
        client = one.client()
        assert client.link.hostname == "::1"
        key = client.get("api/session")["next"]
        assert client.answer("over-version-six", key)[0] == 200
        assert client.request("GET", "api/session", Host="[::2]:80")[0] == 403
        assert client.request("GET", client.link.path.rstrip("/"), X_Forwarded_Proto="https")[0] == 307
        assert client.headers["Location"].startswith("http://[::1]:")


def test_a_link_to_a_server_for_the_network_works_without_one(monkeypatch):
    def unreachable(self, address):
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    with listen.open_socket("0.0.0.0", 0) as listening:
        monkeypatch.setattr(socket.socket, "connect", unreachable)
        (link,) = listen.links(listening, "0.0.0.0", {"ann": "token"}).values()
    assert link.startswith("http://127.0.0.1:")


def test_reviews_and_revelations(tmp_path):
    labels = rci.label(EPISODES, [2, None, 4, None])
    rci.save(sparse_costs(labels), tmp_path / "costs")
    with server(tmp_path, EPISODES, "--costs", str(tmp_path / "costs")) as one:
        client = one.client()
        session = client.get("api/session")
        assert session["costs"] is True
        found = client.get(f"api/items/{session['next']}/costs")
        assert found == {"cost": [0.0, 0.0, 1.0], "stop_index": 2, "highest": 2}
        assert client.get(f"api/items/{session['next']}")["episode"] == 0


def test_what_the_rule_says_can_be_revealed(tmp_path, point_episodes):
    with server(tmp_path, point_episodes, "--reveal", "--order", "random") as one:
        client = one.client()
        key = client.get("api/session")["next"]
        episode = client.get(f"api/items/{key}")["episode"]
        assert (
            client.get(f"api/items/{key}/truth")["rule"]
            == rci.label(point_episodes, "point").stop_index[episode]
        )


def test_progress_of_two(tmp_path):
    with server(tmp_path, EPISODES, "--annotator", "ann", "--annotator", "bob") as one:
        label_all(one.client("ann"), "ann")
        found = one.client("bob").get("api/progress")
    ann, bob = found["annotators"]
    assert (ann["name"], ann["done"], ann["left"], ann["stop"]) == ("ann", 4, 0, 4)
    assert (bob["done"], bob["left"], bob["hours_left"]) == (0, 4, None)
    assert (found["episodes"], found["labelled"]) == (4, 4)
    assert ann["labels_per_hour"] == 3600.0


def test_two_annotators_at_once_lose_and_double_nothing(tmp_path):
    """A thousand labels here; `rci bench serve` does ten thousand."""
    episodes = ragged([2] * 500)
    with server(tmp_path, episodes, "--annotator", "ann", "--annotator", "bob") as one:
        threads = [threading.Thread(target=label_all, args=(one.client(n), n)) for n in ("ann", "bob")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    answers = read_session(tmp_path / "answers").answers()
    assert sorted((a.annotator, a.episode) for a in answers) == [
        (n, i) for n in ("ann", "bob") for i in range(500)
    ]
    assert len((tmp_path / "answers" / "answers.jsonl").read_text().splitlines()) == 1000


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"order": "randm"}, "Did you mean 'random'"),
        ({"order": "uncertain"}, "--costs"),
        ({"annotators": ("a/b",)}, "annotator's name"),
        ({"annotators": ("ann", "ann")}, "twice"),
        ({"gold": Path("none.csv")}, "no file none.csv"),
        ({"frames": Path("none")}, "no folder none"),
        ({"shown_as": "highwy"}, "Did you mean 'highway'"),
        ({"shown_as": "highway"}, "highway"),
        ({"reveal": True}, "nothing to reveal"),
        ({"kinds": ("near",)}, "a single kind of danger"),
        ({"kinds": ("a", "a")}, "different names"),
        ({"host": "no.such.host.invalid"}, "not an address of this machine: .* --host 127.0.0.1"),
        ({"host": "192.0.2.77"}, "not an address of this machine: .* --host 127.0.0.1"),
        ({"costs": Path("none")}, "nothing at none"),
        ({"episodes": Path("none")}, "nothing at none"),
    ],
)
def test_mistakes_are_told_in_one_sentence_and_leave_nothing_behind(tmp_path, wrong, message):
    rci.save(EPISODES, tmp_path / "episodes")
    given = {"episodes": tmp_path / "episodes", "folder": tmp_path / "answers", "port": 0} | wrong
    with pytest.raises(RciError, match=message):
        serve(Request(**given), print)
    assert not (tmp_path / "answers").exists()


def test_a_port_that_is_taken_is_told(tmp_path):
    with server(tmp_path, EPISODES) as one:
        port = one.client().link.port
        rci.save(EPISODES, tmp_path / "same")
        with pytest.raises(RciError, match=f"cannot listen on 127.0.0.1:{port}.*choose another --port"):
            serve(Request(tmp_path / "same", tmp_path / "others", port=port), print)


def test_the_command_line_tells_a_mistake_without_a_traceback(tmp_path):
    command = server(tmp_path, EPISODES, "--order", "randm").command
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("rci: unknown order 'randm'.")


IN_PYTHON = """
import sys, rci
from rci.labeling.people.sessions.queue import Order
from rci.labeling.server import serve
episodes = rci.load(sys.argv[1])
serve(episodes, sys.argv[2], annotators=["ann"], order=Order("random", seed=1), gold={2: 4}, port=0)
"""


def test_serving_from_python(tmp_path):
    rci.save(EPISODES, tmp_path / "episodes")
    command = [sys.executable, "-c", IN_PYTHON, str(tmp_path / "episodes"), str(tmp_path / "answers")]
    with Server(command, tmp_path / "errors.txt") as one:
        assert one.client("ann").get("api/session")["total"] == 4
        assert one.stop() == 0
    assert read_session(tmp_path / "answers").gold == {2: 4}
