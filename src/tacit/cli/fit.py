"""`tacit fit`: one command per model; each writes a folder with the model, the figures and a report."""

from __future__ import annotations

import typer

from tacit.cli.fit_coupled import coupled
from tacit.cli.fit_local import local
from tacit.cli.fit_neural import neural
from tacit.cli.fit_nmf import nmf
from tacit.cli.fit_recommend import recommend
from tacit.cli.fit_svd import pca, pcr, svd

app = typer.Typer(help="Fit a model, private when --epsilon is given; writes a folder.", no_args_is_help=True)
app.command()(neural)
app.command()(coupled)
app.command()(local)
app.command()(nmf)
app.command()(recommend)
app.command()(svd)
app.command()(pca)
app.command()(pcr)
