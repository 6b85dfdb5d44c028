"""A figure as files, with the words that go with it."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import matplotlib.style
from matplotlib.figure import Figure

from rci.reporting.figures.palette import STYLE

PNG_DOTS_PER_INCH = 200


@dataclass(frozen=True)
class Picture:
    """A rendered figure: its file name without ending, its description for those who do not see it, its caption.

    `section`: where it belongs, on a page that places figures by it.
    """

    name: str
    alt: str
    caption: str
    svg: bytes
    png: bytes
    figure: Figure = field(compare=False, repr=False)
    section: str = ""

    @property
    def pdf(self) -> bytes:
        """The figure for a paper. It is made when asked for: it takes as long as the others, and few need it."""
        pdf = io.BytesIO()
        with matplotlib.style.context(["default", STYLE]):
            # Without dates, the same figure gives the same bytes.
            dateless = {"CreationDate": None, "Creator": None, "Producer": None}
            self.figure.savefig(pdf, format="pdf", metadata=dateless)
        return pdf.getvalue()

    def files(self, formats: Sequence[str] = ("pdf", "svg", "png")) -> dict[str, bytes]:
        """The picture in these formats, by file name."""
        return {f"{self.name}.{ending}": getattr(self, ending) for ending in formats}


def render(name: str, alt: str, caption: str, build: Callable[[], Figure]) -> Picture:
    """Draw a figure in the house style. The same figure gives the same bytes: no dates, no random identifiers."""
    with matplotlib.style.context(["default", STYLE]):
        figure = build()
        svg, png = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.set_layout_engine("none")  # the parts have found their places: no need to look again
        figure.savefig(png, format="png", dpi=PNG_DOTS_PER_INCH, metadata={"Software": None})
    return Picture(name, alt, caption, svg.getvalue(), png.getvalue(), figure)
