"""The lean model of the Fetch arm: that what it leaves out cannot happen, and that it is used only where this holds.

The proof: a pair of parts, and a box of joint positions. At the box's centre a plane is sought that lies between the
two convex parts. Anywhere in the box, a corner of a part is at most `sum of |joint's way| x corner's leverage` away
from where it is at the centre; if the plane separates the corners by more than that and the distance to be proved,
the pair is apart in the whole box. If not, the box is halved. All corners of the meshes are taken, and MuJoCo's
parts are the convex hulls of these, so nothing is left to sampling.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")

from rci.tasks import make_vec
from rci.tasks.fetch_reach.model import CALM_PAIRS, JOINT_BOX, ROOM, SUBSTEPS, load_arm

# Contacts begin 1 mm apart, or at the sum of both parts' 1 mm, depending on MuJoCo's version; another 1 mm for
# its tolerance (1e-6) and rounding.
MARGIN = 0.001  # m
APART = 2 * MARGIN + 0.001  # m: what is proved
MOST_CELLS = 20_000  # no proof within so many boxes is a failure
SEARCH = 60  # steps of the search for a plane
MESH, SLIDE, HINGE = mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE


class Side(NamedTuple):
    """One part of a pair, and the joints that move it but not the other part."""

    geom: int
    corners: np.ndarray  # [n, 3] m, in the part's own frame
    joints: list[int]  # from the trunk outwards


class Verdict(NamedTuple):
    proved: bool
    cells: int
    nearest: float  # m: a distance that no position in the box falls below; if not proved, one that exists
    witness: dict[str, float]  # if not proved: such a position


# Parts


def body_id(name: str) -> int:
    return load_arm().model.body(f"robot0:{name}_link").id


def ancestry(body: int) -> list[int]:
    """A body and those it hangs on, without the world, outermost first."""
    parent = load_arm().model.body_parentid
    found = []
    while body > 0:
        found.append(int(body))
        body = parent[body]
    return found


def sides(one: str, other: str) -> tuple[Side, Side]:
    """The two parts of a pair."""
    chains = [ancestry(body_id(name)) for name in (one, other)]
    common = set(chains[0]) & set(chains[1])
    return tuple(Side(*part(chain[0]), moving_joints(chain, common)) for chain in chains)


def part(body: int) -> tuple[int, np.ndarray]:
    """The mesh that a body consists of, which must be the only one."""
    model = load_arm().model
    (geom,) = np.flatnonzero(model.geom_bodyid == body)
    assert model.geom_type[geom] == MESH
    assert model.geom_margin[geom] == MARGIN
    mesh = model.geom_dataid[geom]
    first = model.mesh_vertadr[mesh]
    corners = model.mesh_vert[first : first + model.mesh_vertnum[mesh]]
    return int(geom), corners.astype(np.float64)


def moving_joints(chain: list[int], common: set[int]) -> list[int]:
    model = load_arm().model
    return [
        j for j in range(model.njnt) if model.jnt_bodyid[j] in chain and model.jnt_bodyid[j] not in common
    ]


def joint_name(joint: int) -> str:
    return load_arm().model.joint(joint).name.removeprefix("robot0:").removesuffix("_joint")


class Pose:
    """Where things are when the arm is as after a reset, except for some joints."""

    def __init__(self) -> None:
        arm = load_arm()
        self.model, self.data = arm.model, mujoco.MjData(arm.model)
        self.start = arm.start[arm.layout.qpos]

    def take(self, joints: list[int], position: np.ndarray) -> None:
        self.data.qpos[:] = self.start
        self.data.qpos[self.model.jnt_qposadr[joints]] = position
        mujoco.mj_kinematics(self.model, self.data)

    def corners(self, side: Side) -> np.ndarray:
        """[n, 3] m, in the world."""
        turned = side.corners @ self.data.geom_xmat[side.geom].reshape(3, 3).T
        return turned + self.data.geom_xpos[side.geom]

    def leverage(self, side: Side, joint: int) -> np.ndarray:
        """How far each corner moves for one radian, or metre, of a joint: its distance from the axis, or 1."""
        if self.model.jnt_type[joint] == SLIDE:
            return np.ones(len(side.corners))
        assert self.model.jnt_type[joint] == HINGE
        off, axis = self.corners(side) - self.data.xanchor[joint], self.data.xaxis[joint]
        return np.linalg.norm(np.cross(off, axis), axis=1)


# The proof


def most_leverage(pose: Pose, side: Side, box: dict[str, tuple[float, float]]) -> np.ndarray:
    """A bound of `leverage` over the whole box for each joint of a side and each corner: [joints, n].

    The distance from a joint's axis depends only on the joints further out. It is the largest on a grid of their
    positions, plus the most that the corner can move between the grid's points: rigorous, not sampled.
    """
    bounds: list[np.ndarray] = []
    for k in reversed(range(len(side.joints))):  # outermost first
        outer = side.joints[k + 1 :]
        grids = [np.linspace(*box[joint_name(j)], 33) for j in outer]
        found = np.zeros(len(side.corners))
        for position in product(*grids):
            pose.take(outer, np.array(position))
            found = np.maximum(found, pose.leverage(side, side.joints[k]))
        between = sum((grid[1] - grid[0]) / 2 * bound for grid, bound in zip(grids, reversed(bounds)))
        is_slide = pose.model.jnt_type[side.joints[k]] == SLIDE
        bounds.append(found if is_slide else found + between)
    return np.array(bounds[::-1]).reshape(len(side.joints), len(side.corners))


def gap(a: np.ndarray, b: np.ndarray, normal: np.ndarray, slack: tuple | float = 0.0) -> float:
    """How far apart the hulls of two sets of corners are along a direction, if each corner gives way by its slack."""
    slack_a, slack_b = slack if isinstance(slack, tuple) else (slack, slack)
    return float((a @ normal - slack_a).min() - (b @ normal + slack_b).max())


def find_plane(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, float]:
    """A direction along which the hulls are far apart, and a distance that some two of their points really have.

    Frank-Wolfe (Gilbert's algorithm) on the differences of points of one hull and of the other.
    """
    apart = a.mean(0) - b.mean(0)
    best, normal = -np.inf, apart / np.linalg.norm(apart)
    for _ in range(SEARCH):
        length = np.linalg.norm(apart)
        if length < 1e-6:  # m: they overlap
            break
        towards = apart / length
        support = a[(a @ towards).argmin()] - b[(b @ towards).argmax()]
        along = support @ towards
        if along > best:
            best, normal = along, towards
        if length - along < 1e-4:  # m: near enough to the best
            break
        step = apart - support
        apart = apart - np.clip(apart @ step / (step @ step), 0.0, 1.0) * step
    return normal, float(np.linalg.norm(apart))


def prove_apart(
    one: str, other: str, box: dict[str, tuple[float, float]] = JOINT_BOX, distance: float = APART
) -> Verdict:
    """Whether two parts are further than `distance` apart wherever the joints are in the box."""
    pose, pair = Pose(), sides(one, other)
    joints = [joint for side in pair for joint in side.joints]
    names = [joint_name(joint) for joint in joints]
    assert set(names) <= set(box), f"{one} and {other} are moved by {names}, which the box must bound"
    first, second = (most_leverage(pose, side, box) for side in pair)
    split = len(first)  # joints of the first side
    weight = np.array([bound.max() for bound in (*first, *second)])
    low, high = np.array([box[name] for name in names]).T
    cells, proved = [(low, high, None)], np.inf
    for count in range(1, MOST_CELLS + 1):
        low, high, normal = cells.pop()
        centre, half = (low + high) / 2, (high - low) / 2
        pose.take(joints, centre)
        a, b = (pose.corners(side) for side in pair)
        slack = (half[:split] @ first, half[split:] @ second)
        if normal is None or gap(a, b, normal, slack) <= distance:
            normal, real = find_plane(a, b)
            if real <= distance:
                return Verdict(False, count, real, dict(zip(names, centre.tolist())))
        room = gap(a, b, normal, slack)
        if room > distance:
            proved = min(proved, room)
            if not cells:
                return Verdict(True, count, proved, {})
            continue
        widest = int((half * weight).argmax())
        for part_low, part_high in ((low[widest], centre[widest]), (centre[widest], high[widest])):
            lows, highs = low.copy(), high.copy()
            lows[widest], highs[widest] = part_low, part_high
            cells.append((lows, highs, normal))
    return Verdict(False, MOST_CELLS, np.nan, {})


@pytest.mark.parametrize(("one", "other"), CALM_PAIRS)
def test_a_calm_pair_cannot_touch_within_the_box(one: str, other: str) -> None:
    verdict = prove_apart(one, other)
    assert verdict.proved, verdict
    assert verdict.nearest > APART


def test_contacts_begin_within_the_distance_that_is_proved() -> None:
    """What the proof takes for granted of MuJoCo, on a wrist that bends further and further: when contacts begin."""
    pose, (one, other) = Pose(), sides("forearm_roll", "wrist_roll")
    apart, touching = [], []
    for angle in np.arange(2.2, 2.5, 0.002):
        pose.take(one.joints + other.joints, np.array([angle, 0.5]))
        mujoco.mj_forward(pose.model, pose.data)
        distance = mujoco.mj_geomDistance(pose.model, pose.data, one.geom, other.geom, 1.0, None)
        contact = any(set(contact.geom) == {one.geom, other.geom} for contact in pose.data.contact)
        (touching if contact else apart).append(distance)
    # one margin of the two parts counts or their sum, depending on MuJoCo's version
    assert 0.5 * MARGIN < max(touching) < 2 * MARGIN + 0.1e-3 < APART
    assert min(apart) < APART  # the wrist passed through what is proved


def test_the_proof_fails_where_parts_do_touch() -> None:
    """With a wrist that may bend further than the box allows, and for neighbours, whose hulls overlap."""
    wide = {**JOINT_BOX, "wrist_flex": (-0.2, 2.4)}
    verdict = prove_apart("forearm_roll", "wrist_roll", wide)
    assert not verdict.proved
    one, other = sides("forearm_roll", "wrist_roll")
    pose = Pose()
    pose.take(one.joints + other.joints, np.array(list(verdict.witness.values())))
    near = mujoco.mj_geomDistance(pose.model, pose.data, one.geom, other.geom, 1.0, None)
    assert near <= verdict.nearest + 1e-6 <= APART + 1e-6
    assert JOINT_BOX["wrist_flex"][1] < verdict.witness["wrist_flex"] <= 2.4
    verdict = prove_apart("shoulder_pan", "shoulder_lift")
    assert not verdict.proved
    assert verdict.nearest <= APART


def test_the_proof_needs_limits_for_every_joint_in_between() -> None:
    with pytest.raises(AssertionError, match="upperarm_roll"):
        prove_apart("head_pan", "upperarm_roll")


def test_distances_and_leverage_are_mujocos() -> None:
    """The proof's geometry against MuJoCo's own, at random positions in the box.

    Where its search does not converge, mj_geomDistance says 0 of parts that are centimetres apart.
    """
    rng, pose, given_up = np.random.default_rng(0), Pose(), 0
    for one, other in CALM_PAIRS:
        pair = sides(one, other)
        joints = [joint for side in pair for joint in side.joints]
        low, high = np.array([JOINT_BOX[joint_name(joint)] for joint in joints]).T
        bounds = [most_leverage(pose, side, JOINT_BOX) for side in pair]
        for _ in range(10):
            position = rng.uniform(low, high)
            pose.take(joints, position)
            a, b = (pose.corners(side) for side in pair)
            normal, real = find_plane(a, b)
            theirs = mujoco.mj_geomDistance(pose.model, pose.data, pair[0].geom, pair[1].geom, 9.0, None)
            given_up += theirs == 0.0
            assert theirs == 0.0 or gap(a, b, normal) - 1e-5 <= theirs <= real + 1e-5
            assert gap(a, b, normal) > APART
            # no corner moves further than its leverage says
            there = rng.uniform(low, high)
            for side, bound in zip(pair, bounds):
                used = [joint in side.joints for joint in joints]
                for joint, most in zip(side.joints, bound):
                    assert (pose.leverage(side, joint) <= most + 1e-12).all()
                before = pose.corners(side)
                pose.take(joints, there)
                moved = np.linalg.norm(pose.corners(side) - before, axis=1)
                pose.take(joints, position)
                assert (moved <= np.abs(there - position)[used] @ bound + 1e-12).all()

    assert given_up <= 10 * len(CALM_PAIRS) // 4


def test_mujoco_finds_no_contact_of_a_calm_pair_in_the_box() -> None:
    """Besides geometry, this takes that MuJoCo's search invents no contacts: none in 2,000 positions."""
    arm, rng = load_arm(), np.random.default_rng(0)
    data = mujoco.MjData(arm.model)
    calm = {frozenset(side.geom for side in sides(*pair)) for pair in CALM_PAIRS}
    low, high = np.array(list(JOINT_BOX.values())).T
    for _ in range(2000):
        data.qpos[:] = arm.start[arm.layout.qpos]
        data.qpos[arm.box_joints] = rng.uniform(low, high)
        mujoco.mj_kinematics(arm.model, data)
        mujoco.mj_collision(arm.model, data)
        assert not calm & {frozenset(geoms) for geoms in data.contact.geom.tolist()}


def test_two_cubes_by_hand() -> None:
    cube = np.array(list(product((0.0, 1.0), repeat=3)))
    moved = cube + np.array([3.0, 0.0, 0.0])
    normal, real = find_plane(moved, cube)
    assert normal == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)
    assert real == pytest.approx(2.0)
    assert gap(moved, cube, normal) == pytest.approx(2.0)
    assert gap(moved, cube, normal, 0.25) == pytest.approx(1.5)
    assert find_plane(cube + 0.5, cube)[1] < 0.1  # they overlap


# The two models


# Names are stored in one long string, in which further excludes move what follows; sizes of memory; a checksum.
BOOKKEEPING = {
    "names",
    "names_map",
    "name_eqadr",
    "name_excludeadr",
    "nnames",
    "nnames_map",
    "nbuffer",
    "signature",
}


def arrays_and_numbers(model) -> dict[str, bytes]:
    """All that a model holds, by name."""
    found = {}
    for part, name in [("", name) for name in dir(model)] + [("opt", name) for name in dir(model.opt)]:
        value = getattr(model.opt if part else model, name)
        if not name.startswith("_") and isinstance(value, np.ndarray | int | float | bytes):
            array = np.asarray(value)
            found[f"{part}.{name}" if part else name] = (
                repr((array.dtype, array.shape)).encode() + array.tobytes()
            )
    return found


def test_the_models_differ_only_in_what_they_compare() -> None:
    arm = load_arm()
    full, lean = arrays_and_numbers(arm.model), arrays_and_numbers(arm.lean)
    assert full.keys() == lean.keys()
    assert len(full) > 300
    assert {"eq_data", "mesh_vert", "opt.timestep", "opt.disableflags"} <= full.keys()
    differing = {name for name in full if full[name] != lean[name]}
    assert differing - BOOKKEEPING == {"exclude_signature", "nexclude"}


def test_the_lean_model_excludes_the_calm_pairs_besides() -> None:
    arm = load_arm()
    more = {(min(pair) << 16) + max(pair) for pair in ((body_id(a), body_id(b)) for a, b in CALM_PAIRS)}
    assert len(more) == len(CALM_PAIRS)
    assert sorted(arm.lean.exclude_signature) == sorted({*arm.model.exclude_signature.tolist(), *more})


def test_limits_are_within_the_box() -> None:
    arm = load_arm()
    assert JOINT_BOX.keys() == ROOM.keys()
    low, high = np.array(list(JOINT_BOX.values())).T
    room = np.array(list(ROOM.values()))
    assert (room > 0).all()
    assert arm.box == pytest.approx(np.array([low + room, high - room]))
    assert (arm.box[0] < arm.box[1]).all()
    names = [arm.model.joint(int(np.flatnonzero(arm.model.jnt_qposadr == i)[0])).name for i in arm.box_joints]
    assert names == [f"robot0:{name}_joint" for name in JOINT_BOX]
    start = arm.start[arm.layout.qpos][arm.box_joints]
    assert ((start > arm.box[0]) & (start < arm.box[1])).all()


# Which one is used


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that MuJoCo was asked to step, in order."""
    arm, step, found = load_arm(), mujoco.mj_step, []
    names = {id(arm.model): "full", id(arm.lean): "lean"}

    def spy(model, data, nstep: int = 1) -> None:
        found.append(names[id(model)])
        step(model, data, nstep=nstep)

    monkeypatch.setattr(mujoco, "mj_step", spy)
    return found


def arms(worlds: int):
    envs = make_vec("fetch-reach", worlds, threads=1)
    envs.reset(seed=0)
    return envs


def joint_place(k: int) -> int:
    """Where the k-th joint of the box is in a row of the state."""
    arm = load_arm()
    return arm.layout.qpos.start + int(arm.box_joints[k])


def full_step(state: np.ndarray) -> np.ndarray:
    """The state after one step of the full model and an action of zeros."""
    arm = load_arm()
    data, after = mujoco.MjData(arm.model), np.zeros_like(state)
    mujoco.mj_setState(arm.model, data, state, arm.layout.flags)
    mujoco.mj_step(arm.model, data, nstep=SUBSTEPS)
    data.qpos[arm.layout.fingers] = 0.0
    mujoco.mj_getState(arm.model, data, after, arm.layout.flags)
    return after


@pytest.mark.parametrize("k", range(len(JOINT_BOX)), ids=list(JOINT_BOX))
@pytest.mark.parametrize("end", [0, 1], ids=["below", "above"])
def test_a_world_outside_the_limits_is_stepped_by_the_full_model(used: list[str], k: int, end: int) -> None:
    envs = arms(3)
    envs.simulator.state[1, joint_place(k)] = load_arm().box[end, k] + (1e-3 if end else -1e-3)
    envs.step(np.zeros((3, 4)))
    assert used == ["lean", "full", "lean"]


def test_a_step_that_leaves_the_limits_is_done_again_by_the_full_model(used: list[str]) -> None:
    """Up and backwards, the arm leaves the box in its fourth step; from there on the full model is enough."""
    arm, envs, models, push = load_arm(), arms(1), [], np.array([[-1.0, 0.0, 1.0, 0.0]])
    sim = envs.simulator
    for _ in range(6):
        sim._aim(push, np.ones(1, bool))
        expected = full_step(sim.state[0])
        used.clear()
        envs.step(push)
        models.append(tuple(used))
        assert sim.state[0].tobytes() == expected.tobytes()
    assert models == [("lean",)] * 3 + [("lean", "full")] + [("full",)] * 2
    joints = sim.state[0, arm.layout.qpos][arm.box_joints]
    assert ((joints < arm.box[0]) | (joints > arm.box[1])).any()


def test_a_step_from_limits_to_limits_stays_in_the_box() -> None:
    """What ROOM is for, substep by substep: in between, no joint uses more than half of it."""
    arm, rng = load_arm(), np.random.default_rng(0)
    envs, data = arms(16), mujoco.MjData(arm.model)
    sim, push, calm = envs.simulator, np.zeros((16, 4)), 0
    for step in range(40):
        if step % 10 == 0:
            push[:] = rng.choice([-1.0, 0.0, 1.0], push.shape)
        sim._aim(push, np.ones(16, bool))
        for state in sim.state:
            mujoco.mj_setState(arm.model, data, state, arm.layout.flags)
            path = [data.qpos[arm.box_joints]]
            for _ in range(SUBSTEPS):
                mujoco.mj_step(arm.model, data)
                path.append(data.qpos[arm.box_joints])
            outside = np.maximum(arm.box[0] - path, path - arm.box[1])
            if outside[0].max() <= 0 and outside[-1].max() <= 0:
                calm += 1
                assert (outside < np.array(list(ROOM.values())) / 2).all()
        envs.step(push)
    assert 100 < calm < 600  # of 640


def test_within_the_limits_both_models_say_the_same(used: list[str]) -> None:
    envs = arms(1)
    sim, rng = envs.simulator, np.random.default_rng(0)
    for _ in range(20):
        action = rng.uniform(-1, 1, (1, 4))
        sim._aim(action, np.ones(1, bool))
        expected = full_step(sim.state[0])
        used.clear()
        envs.step(action)
        assert used == ["lean"]
        assert sim.state[0].tobytes() == expected.tobytes()
