"""The help of `rci`: commands in the order of the pipeline, and what to use in place of an unknown verb."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperGroup

# Headings of the help, in their order. A command names its heading as its panel; within one, commands stand in the
# order in which they are added.
PIPELINE = "The pipeline, from recorded runs to a report"
STAGES = "Single stages, each from folders to a folder"
OWN_LOGS = "Your own logs, and people who label them"
COMPARING = "Comparing methods, settings and budgets"
SCALING = "Logs too large for one machine"
TOOLS = "Tools"
HEADINGS = (PIPELINE, STAGES, OWN_LOGS, COMPARING, SCALING, TOOLS)

# What people call these commands elsewhere.
VERBS: Mapping[str, tuple[str, ...]] = {
    "run": ("start", "pipeline", "all", "demo", "go"),
    "collect": ("record", "gather", "generate", "simulate", "sample", "rollout"),
    "label": ("mark", "rule", "stop"),
    "redistribute": ("infer", "credit", "costs", "fit", "attribute", "shape"),
    "learn": ("train", "fit", "optimise", "optimize", "policy", "solve"),
    "select": ("choose", "pick", "best", "rank"),
    "evaluate": ("eval", "test", "score", "validate", "judge", "play"),
    "report": ("page", "html", "summary", "summarise", "summarize"),
    "import": ("load", "read", "convert", "ingest", "add"),
    "serve": ("annotate", "labeler", "ui", "web", "server"),
    "export": ("save", "write", "onnx", "dump"),
    "monitor": ("watch", "alarm", "guard", "detect"),
    "sweep": ("grid", "tune", "search", "compare", "hyperopt"),
    "inspect": ("show", "info", "describe", "verify", "check", "cat", "ls", "list"),
    "bench": ("benchmark", "speed", "time", "profile"),
}


class Commands(TyperGroup):
    """The commands of `rci`, each below its heading."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write every heading with its commands, each with the first sentence of its help, never cut off."""
        width = max(map(len, self.commands))
        for heading in HEADINGS:
            below = [name for name in self.commands if heading_of(self.commands[name]) == heading]
            if below:
                with formatter.section(heading):
                    formatter.write_dl(
                        [(f"{name:{width}}", sentence_of(self.commands[name])) for name in below]
                    )

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command of a name; of another verb, what to use in its place."""
        if args and args[0] not in self.commands and (others := commands_for(args[0], self.commands)):
            meant = " or ".join(
                f"{name!r} ({sentence_of(self.commands[name]).rstrip('.')})" for name in others
            )
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant}?")
        return super().resolve_command(ctx, args)


def heading_of(command: Any) -> str:
    """The heading that a command stands below; tools where it names none."""
    panel = command.rich_help_panel
    return panel if isinstance(panel, str) else TOOLS


def sentence_of(command: Any) -> str:
    """The first paragraph of a command's help."""
    return " ".join((command.help or "").partition("\n\n")[0].split())


def commands_for(verb: str, commands: Mapping[str, Any]) -> list[str]:
    """The commands that do what a verb says, as far as they are there."""
    return [name for name, verbs in VERBS.items() if verb.lower() in verbs and name in commands]


def command_line(text: str) -> typer.Typer:
    """An empty command line with this help."""
    return typer.Typer(
        cls=Commands,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=text,
    )
