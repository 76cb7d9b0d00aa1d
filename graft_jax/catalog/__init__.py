"""Tools, their names as tokens, and the tool graph. NumPy and NetworkX; no JAX, no models."""

from graft_jax.catalog.catalog import Catalog, Tool, load_catalog, save_catalog

__all__ = ["Catalog", "Tool", "load_catalog", "save_catalog"]
