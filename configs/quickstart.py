"""The quickstart: the project's own catalog and requests, sized for two CPU cores."""

from graft_jax.config import Config, Distill, Edges, Grounding, Sft, Validation

config = Config(
    run="runs/quickstart",
    data="data/quickstart",
    backbone="backbones/smollm2-135m",
    grounding=Grounding(epochs=0.25),
    edges=Edges(steps=60),
    sft=Sft(epochs=3.0),
    distill=Distill(epochs=0.3),
    validation=Validation(rows=100),
)
