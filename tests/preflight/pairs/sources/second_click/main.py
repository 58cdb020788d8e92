"""Training with options of click."""

import random

import click
from core import fit, load, report


@click.group()
@click.option("--debug/--no-debug", default=False)
def cli(debug):
    if debug:
        print("debug")


@cli.command()
@click.argument("tables", nargs=-1, type=click.Path(exists=True))
@click.option("--lr", "-l", default=0.1, show_default=True, envvar="HELD_LR")
@click.option("--epochs", "-n", default=3, type=int)
@click.option("--flip/--keep", default=False)
@click.option("--seed", default=5, type=int)
@click.option("--title", default="untitled")
def train(tables, lr, epochs, flip, seed, title):
    rows = [row for table in tables for row in load(table)]
    if flip:
        rows = [[*row[:-1], 1 - row[-1]] for row in rows]
    report(fit(rows, random.Random(seed), lr, epochs), seed)


@cli.command()
@click.argument("tables", nargs=-1, type=click.Path(exists=True))
@click.option("--lr", default=0.1)
@click.option("--seed", default=5, type=int)
def tune(tables, lr, seed):
    rows = [row for table in tables for row in load(table)]
    rng = random.Random(seed)
    report([fit(rows, rng, lr * factor) for factor in (1, 2)], seed)


if __name__ == "__main__":
    cli(auto_envvar_prefix="HELD")
