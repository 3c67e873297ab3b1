"""Which commands of `noctaya` are the operator's, and under which heading `--help` shows them."""

import typer

from noctaya.ops import changing, reading

LOOKING = "The fleet: looking"
CHANGING = "The fleet: changing"


def register(app: typer.Typer) -> None:
    """Add the operator's commands to `app`."""
    looking = (
        reading.status,
        reading.workers,
        reading.shards,
        reading.moves,
        reading.owner,
        reading.why,
        reading.story,
        reading.rebalance,
        reading.plan,
        reading.verify,
        reading.dump,
    )
    wanting = (changing.drain, changing.cordon, changing.uncordon, changing.freeze, changing.unfreeze)
    for command in looking:
        app.command(rich_help_panel=LOOKING)(command)
    for wish in wanting:
        app.command(rich_help_panel=CHANGING)(wish)
