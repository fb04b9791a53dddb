"""The two drawings of the documentation, as SVG that reads on a light and on a dark ground."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

from docs.figures.blocks import ROOT

INK, LINE = "#12202b", "#74869a"
GREEN, BLUE, SAND, GREY = "#cfe8d5", "#d3e2f4", "#f4e4c8", "#e3e7ec"


@dataclass
class Drawing:
    """Boxes with text and arrows, in pixels from the upper left."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def box(self, x: int, y: int, width: int, height: int, fill: str) -> None:
        """Draw a box with round corners."""
        size = f'x="{x}" y="{y}" width="{width}" height="{height}"'
        self.parts.append(f'<rect {size} rx="8" fill="{fill}" stroke="{LINE}"/>')

    def text(self, x: int, y: int, words: str, size: int = 13, bold: bool = False, fill: str = INK) -> None:
        """Write one line that begins at x, y."""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(f'<text x="{x}" y="{y}" font-size="{size}"{weight} fill="{fill}">{escape(words)}</text>')

    def card(self, x: int, y: int, width: int, height: int, fill: str, head: str, *lines: str) -> None:
        """Draw a box with a head and lines under it."""
        self.box(x, y, width, height, fill)
        self.text(x + 14, y + 24, head, 14, bold=True)
        for number, line in enumerate(lines):
            self.text(x + 14, y + 46 + 19 * number, line)

    def arrow(self, points: str, words: str = "", x: int = 0, y: int = 0) -> None:
        """Draw a line through `points` that ends in a head, with words in the colour of the line beside it."""
        line = f'points="{points}" fill="none" stroke="{LINE}" stroke-width="2" marker-end="url(#head)"'
        self.parts.append(f"<polyline {line}/>")
        if words:
            self.text(x, y, words, 12, bold=True, fill=LINE)

    def svg(self) -> str:
        """Return the whole file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'role="img" font-family="system-ui, sans-serif">\n<title>{escape(self.title)}</title>\n'
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0 8 4 0 8z" fill="{LINE}"/></marker></defs>\n'
        )
        return head + "\n".join(self.parts) + "\n</svg>\n"


def flow() -> Drawing:
    """Parent, images, children and updates."""
    drawing = Drawing(860, 372, "The parent makes children and images, and updates them")
    drawing.card(10, 20, 270, 190, GREEN, "Parent: this repository", "copier.yml: nine questions", "templates/")
    drawing.text(40, 104, "library, batch, service")
    drawing.text(24, 123, "base-images/catalog.yml")
    drawing.text(40, 142, "driver → image → versions")
    drawing.text(24, 161, "hooks/: updates, the fleet")
    drawing.text(24, 189, "tests render every answer set", 12)
    drawing.card(540, 20, 310, 190, BLUE, "Children: your repositories", "src/ tests/ deploy/overlays: yours")
    drawing.text(554, 85, "Dockerfile scripts/ deploy/base:")
    drawing.text(570, 104, "kept by the template, yours to edit")
    drawing.text(554, 123, "requirements.lock: every package, hashed")
    drawing.text(554, 161, "setup lint test build smoke run shell", 12)
    drawing.text(554, 178, "lock update: the same on a laptop,", 12)
    drawing.text(554, 195, "in CI and on a GPU node", 12)
    drawing.card(10, 262, 270, 96, SAND, "Base images: your registry", "torch, TensorFlow or plain CUDA,")
    drawing.text(24, 327, "one CUDA each, gpu-smoke inside")
    drawing.card(540, 262, 310, 96, GREY, "GPU nodes", "the child's image; gpu-smoke names the")
    drawing.text(554, 327, "layer at fault, from driver to model")
    drawing.arrow("280,62 534,62", "make new: start a child", 330, 54)
    drawing.arrow("280,116 534,116", "update, fleet: every fix,", 330, 108)
    drawing.text(330, 134, "merged with the owner's edits", 12, bold=True, fill=LINE)
    drawing.arrow("145,210 145,256", "make images, promote", 156, 240)
    drawing.arrow("280,290 430,290 430,190 534,190", "FROM, by digest", 300, 282)
    drawing.arrow("695,210 695,256", "scripts/build, deploy", 706, 240)
    return drawing


STACK = (
    ("Your model", "src/…/model.py", BLUE, "the same predictions on GPU and CPU?"),
    ("Framework", "PyTorch, TensorFlow, CuPy", GREEN, "a CUDA build? code for this GPU? right numbers?"),
    ("Toolkit libraries", "cuBLAS, cuDNN, NCCL …", GREEN, "one copy of each? a right result from each?"),
    ("CUDA runtime", "libcudart.so.13", GREEN, "does it accept this driver?"),
    ("User driver", "libcuda.so.1", SAND, "which file is it? does cuInit work?"),
    ("Kernel module", "nvidia.ko", SAND, "is it loaded, and in which version?"),
    ("Device nodes", "/dev/nvidia0, nvidiactl …", SAND, "are they here, and may this user open them?"),
    ("GPU", "H100, L4 …", GREY, "healthy? memory read back as written?"),
)


def stack() -> Drawing:
    """The GPU call stack: who brings which layer, and what gpu-smoke asks of it."""
    drawing = Drawing(860, 60 + 48 * len(STACK), "The GPU call stack, from the model down to the device")
    drawing.text(150, 24, "layer", 12, bold=True, fill=LINE)
    drawing.text(520, 24, "what gpu-smoke asks of it", 12, bold=True, fill=LINE)
    for number, (name, example, fill, question) in enumerate(STACK):
        top = 36 + 48 * number
        drawing.box(140, top, 360, 40, fill)
        drawing.text(154, top + 25, name, 14, bold=True)
        drawing.text(300, top + 25, example)
        drawing.text(520, top + 25, question, fill=LINE)
    for words, line, top, bottom in (
        ("yours", "", 0, 1),
        ("in the image,", "the same everywhere", 1, 4),
        ("from the node,", "mounted at the start", 4, 8),
    ):
        first, last = 40 + 48 * top, 72 + 48 * (bottom - 1)
        drawing.parts.append(
            f'<path d="M134 {first}h-6v{last - first}h6" fill="none" stroke="{LINE}" stroke-width="2"/>'
        )
        middle = (first + last) // 2
        drawing.text(2, middle + (0 if line else 5), words, 12, bold=True, fill=LINE)
        drawing.text(2, middle + 16, line, 11, fill=LINE)
    return drawing


DRAWINGS = {"flow.svg": flow, "stack.svg": stack}


def draw() -> None:
    """Write the drawings."""
    for name, drawing in DRAWINGS.items():
        (ROOT / "docs" / name).write_text(drawing().svg(), encoding="utf-8")
