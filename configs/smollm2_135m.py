"""SmolLM2-135M-Instruct on UltraTool, the full method; two CPU cores are enough."""

from graft_jax.config import Config, Edges, Optimizer

config = Config(
    run="runs/smollm2_135m",
    data="data/ultratool",
    backbone="backbones/smollm2-135m",
    # 150 steps recover edges with AUC .92 at these rates, with .83 at 3e-4 for both.
    edges=Edges(steps=300, optimizer=Optimizer(lora_rate=1e-3, rows_rate=3e-3)),
)
