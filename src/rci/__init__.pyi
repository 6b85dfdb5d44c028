"""The public names, where they come from, and their types; `__init__.py` reads this to load each when it is used."""

from typing import Any

from rci import (
    collection as collection,
)
from rci import (
    data as data,
)
from rci import (
    evaluation as evaluation,
)
from rci import (
    labeling as labeling,
)
from rci import (
    learning as learning,
)
from rci import (
    nets as nets,
)
from rci import (
    redistribution as redistribution,
)
from rci import (
    reporting as reporting,
)
from rci import (
    runtime as runtime,
)
from rci import (
    tasks as tasks,
)
from rci.collection import collect as collect
from rci.data.errors import RciError as RciError
from rci.data.risk.estimates import PolicyEstimate as PolicyEstimate
from rci.data.types import (
    Episode as Episode,
)
from rci.data.types import (
    Episodes as Episodes,
)
from rci.data.types import (
    Labels as Labels,
)
from rci.data.types import (
    Oracle as Oracle,
)
from rci.data.types import (
    Policy as Policy,
)
from rci.data.types import (
    Scores as Scores,
)
from rci.data.types import (
    Signal as Signal,
)
from rci.data.types import (
    Signals as Signals,
)
from rci.data.types import (
    StepCosts as StepCosts,
)
from rci.data.types import (
    Takeovers as Takeovers,
)
from rci.deploy.onnx import export_onnx as export_onnx
from rci.evaluation import evaluate as evaluate
from rci.formats import (
    convert_dataset as convert_dataset,
)
from rci.formats import (
    import_bags as import_bags,
)
from rci.formats import (
    import_d4rl as import_d4rl,
)
from rci.formats import (
    import_dataset as import_dataset,
)
from rci.formats import (
    import_dsrl as import_dsrl,
)
from rci.formats import (
    import_lerobot as import_lerobot,
)
from rci.formats import (
    import_logs as import_logs,
)
from rci.formats import (
    import_minari as import_minari,
)
from rci.formats import (
    import_omnisafe as import_omnisafe,
)
from rci.formats import (
    read_bags as read_bags,
)
from rci.formats import (
    read_d4rl as read_d4rl,
)
from rci.formats import (
    read_dsrl as read_dsrl,
)
from rci.formats import (
    read_lerobot as read_lerobot,
)
from rci.formats import (
    read_logs as read_logs,
)
from rci.formats import (
    read_minari as read_minari,
)
from rci.formats import (
    read_omnisafe as read_omnisafe,
)
from rci.formats import (
    write_costs as write_costs,
)
from rci.formats import (
    write_dsrl as write_dsrl,
)
from rci.formats import (
    write_lerobot as write_lerobot,
)
from rci.formats import (
    write_minari as write_minari,
)
from rci.formats import (
    write_parquet as write_parquet,
)
from rci.labeling import label as label
from rci.learning import learn as learn
from rci.learning.judging.estimate import estimate as estimate
from rci.learning.judging.fqe import judge as judge
from rci.learning.judging.selection import select as select
from rci.pipeline.assessing.assess import assess as assess
from rci.redistribution import redistribute as redistribute

__version__: str
__all__: list[str]

def load(path: Any, verify: bool = True) -> Any: ...
def save(record: Any, path: Any) -> None: ...
