"""The quickstart: the project's own catalog and requests, sized for two CPU cores."""

from graft_jax.config import Config, Distill, Edges, Grounding, Optimizer, Sft, Validation

config = Config(
    run="runs/quickstart",
    data="data/quickstart",
    backbone="backbones/smollm2-135m",
    grounding=Grounding(epochs=0.1),
    edges=Edges(steps=60, optimizer=Optimizer(lora_rate=1e-3, rows_rate=3e-3)),
    # Requests can be generated at will: each is read once, and is as new as those of the test.
    # Distillation, and the teacher's prompts it needs, would double the time.
    sft=Sft(epochs=1.0, teacher_share=0.0),
    distill=Distill(enabled=False),
    validation=Validation(rows=100),
)
