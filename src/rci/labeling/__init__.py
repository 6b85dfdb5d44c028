"""Second stage: where was each episode stopped, if at all?"""

from rci.labeling.noise import NOISES, corrupt
from rci.labeling.rules import label

__all__ = ["NOISES", "corrupt", "label"]
