"""The web labeler: one page on the loopback address, on which a person watches episodes and presses STOP."""

from rci.labeling.server.app import make_app
from rci.labeling.server.exhibit import Exhibit
from rci.labeling.server.service import serve

__all__ = ["Exhibit", "make_app", "serve"]
