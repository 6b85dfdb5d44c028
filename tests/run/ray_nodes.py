"""A Ray cluster of several nodes on this machine, ruled by lines on standard input: `add CPUS`, `kill NODE`, end.

Run as a program of its own: Ray warns a lot, and in the tests warnings are errors.
"""

import json
import os
import sys

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# A dead node is noticed after about 3 s, not 30.
for name, value in (("initial_delay_ms", 1000), ("period_ms", 1000), ("failure_threshold", 2)):
    os.environ[f"RAY_health_check_{name}"] = str(value)

from ray.cluster_utils import Cluster

MEMORY = 80 * 2**20  # of the object store of a node: the smallest that Ray takes


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": MEMORY, "include_dashboard": False},
    )
    say(address=cluster.address)
    nodes = {}
    for line in sys.stdin:
        command, argument = line.split()
        if command == "add":
            node = cluster.add_node(num_cpus=int(argument), object_store_memory=MEMORY)
            nodes[node.node_id] = node
            say(node=node.node_id)
        elif command == "kill":
            cluster.remove_node(nodes.pop(argument), allow_graceful=False)
            say(killed=argument)
    cluster.shutdown()


if __name__ == "__main__":
    main()
