"""SmolLM2-135M-Instruct on UltraTool, the full method; two CPU cores are enough."""

from graft_jax.config import Config

config = Config(
    run="runs/smollm2_135m",
    data="data/ultratool",
    backbone="backbones/smollm2-135m",
)
