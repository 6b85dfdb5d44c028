"""Where each quantity of a car stands. A world is two blocks of numbers, one column per car; car 0 is the ego.

Blocks instead of objects: all worlds are one array [worlds, fields, cars], which a compiled loop runs through and
which can be copied, saved and restored whole.
"""

from __future__ import annotations

# Rows of the block of floats, `car`
X = 0  # m, along the road
Y = 1  # m, across it; lane l is centred at 4 l
HEADING = 2  # rad, 0 is along the road
SPEED = 3  # m/s, may be negative
COS = 4  # of the heading, kept because everybody asks for it
SIN = 5
TARGET_SPEED = 6  # m/s
EXPONENT = 7  # of the speed term of this driver's IDM
TIMER = 8  # s since the driver last thought about changing lanes
STEERING = 9  # rad, latched
ACCELERATION = 10  # m/s2, latched
IMPACT_X = 11  # m, the push that a collision gives in the next frame
IMPACT_Y = 12
CAR_FIELDS = (
    "x", "y", "heading", "speed", "cos", "sin", "target_speed", "exponent", "timer", "steering", "acceleration",
    "impact_x", "impact_y",
)  # fmt: skip

# Rows of the block of whole numbers, `tag`
LANE = 0  # the nearest one
TARGET_LANE = 1
CRASHED = 2
PARTNER = 3  # the car whose push is pending, -1 for none
ORDER = 4  # the cars from back to front; ties by index
RANK = 5  # where each car stands in that order
TAG_FIELDS = ("lane", "target_lane", "crashed", "partner", "order", "rank")

# Terms of the reward, as highway-env names them
REWARD_TERMS = ("collision_reward", "right_lane_reward", "high_speed_reward", "on_road_reward")

LANE_WIDTH = 4.0  # m
ROAD_LENGTH = 10_000.0  # m
CAR_LENGTH, CAR_WIDTH = 5.0, 2.0  # m
PERCEPTION = 200.0  # m, how far cars are seen
REAR_VIEW = 2 * CAR_LENGTH  # m that a car may be behind and still be seen
SPEED_LIMIT = 30.0  # m/s
MAX_SPEED = 40.0  # m/s, either way

# The tasks
TASK_LANES = 4
SAFE_DISTANCE = 0.2  # between two cars, normalised
TASK_SCALE = (PERCEPTION, TASK_LANES * LANE_WIDTH)  # m along and across the road that are observed as 1
DISC_SCALE = (100.0, 100.0)  # m, of the task whose danger is a disc
SPEED_SCALE = 2 * MAX_SPEED  # m/s that are observed as 1
