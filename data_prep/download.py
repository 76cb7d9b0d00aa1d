"""Fetching published files at a pinned commit, each checked by its SHA-256.

What is already there and right is not fetched again, so a broken run is continued by the same
command. Knows addresses and hashes, not what is in the files.
"""

import dataclasses
import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from graft_jax.errors import GraftError

BASE_URL = "https://raw.githubusercontent.com"
_ATTEMPTS = 3
_TIMEOUT_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Published:
    """Files of one data set: `base/repository/commit/folder/name`, name -> SHA-256.

    A hash of None: the file was not at hand when this table was made; it is fetched unchecked and
    its hash stands in the manifest.
    """

    name: str
    repository: str
    commit: str
    folder: str
    files: Mapping[str, str | None]

    @property
    def address(self) -> str:
        """For people: the repository's folder at the commit."""
        return f"github.com/{self.repository}, commit {self.commit}, folder {self.folder}"

    def url(self, base: str, file: str) -> str:
        """Where one file is fetched from."""
        return f"{base.rstrip('/')}/{self.repository}/{self.commit}/{self.folder}/{file}"


def fetch(published: Published, folder: Path, base_url: str = BASE_URL) -> None:
    """Brings all files of `published` into `folder`, each under its name only once it is right.

    Raises:
      GraftError: no connection, an absent file, a connection that keeps breaking, or a file whose
        hash differs; files fetched before it stay and are not fetched again.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GraftError(f"{folder}: cannot be made ({error.strerror}); check --cache") from None
    for name, expected in published.files.items():
        path = folder / name
        if path.exists() and expected in (None, _hash(path.read_bytes())):
            continue
        url = published.url(base_url, name)
        content = _get(url)
        if expected is not None and _hash(content) != expected:
            raise GraftError(
                f"{url}: SHA-256 is {_hash(content)}, expected {expected}; nothing was kept: try "
                f"again, or put the right file at {path}"
            )
        partial = path.with_name(f".{name}.partial")
        partial.write_bytes(content)
        os.replace(partial, path)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _get(url: str) -> bytes:
    """The body; a connection that breaks is tried again, since the next one often holds."""
    reason: object = None
    for _ in range(_ATTEMPTS):
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
                return response.read()
        except urllib.error.HTTPError as error:
            error.close()
            raise GraftError(
                f"{url}: the server answers {error.code} {error.reason}; download the file by hand "
                "and name its folder with --source"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or repr(error)
        except ValueError as error:
            raise GraftError(f"{url}: is not an address ({error}); check --base-url") from None
    raise GraftError(
        f"{url}: cannot be fetched, {_ATTEMPTS} attempts ({reason}); check the network and run the "
        "same command again, or download by hand and give --source"
    )


_REQUESTS = "user_requests.json"
_GRAPH_PLANNING = ("WxxShirley/GNN4TaskPlan", "f1486690f4fa00030bc7035f0dcc41904889aa2c")

PUBLISHED = {
    "ultratool": Published(
        "ultratool",
        *_GRAPH_PLANNING,
        "data/ultratool",
        {
            "data.json": "d29a3628ca3cda63a1d4e9de6e5bca7eab7e5bf50cdd6616bb849790e2a51f91",
            "graph_desc.json": "9e7f5141c9374e9878bda8c5e9b75d6876b16a6e1ee10ac70492878f4c294812",
            "tool_desc.json": "3f077aff3bea1ff0b210c34aca046f2884e63bdc6d6d29a7a493378612541a38",
            "split_ids.json": "5a7dc07aa9d0964aa14dc84bd6123700aa533a2f22bb6a75e06b53c8f96338c3",
            _REQUESTS: "fe6c3e442e9aaae33c62dd0686d76708144bbb09365466161b1d56343140e846",
        },
    ),
    "taskbench/huggingface": Published(
        "taskbench-huggingface",
        *_GRAPH_PLANNING,
        "data/huggingface",
        {
            "data.json": None,
            "graph_desc.json": "48f774a01d1452ddf918ced6f04218fe311863725a0d6624d6e191e7ea6c4694",
            "tool_desc.json": "0eb0654faea9a5f07c0102ca57bfc6de3f9e03d8a00c2776b82e22b1b7c31fbd",
            "split_ids.json": "eef2bd8fbdd574368591b362ba2736b8c6f4cca96ba20cd7ed04b2108ef225c3",
            _REQUESTS: "643c981f5a2bc0a5a665884fc721bb914fac698b619e3efd4a4364872b33f93c",
        },
    ),
    "taskbench/multimedia": Published(
        "taskbench-multimedia",
        *_GRAPH_PLANNING,
        "data/multimedia",
        {
            "data.json": None,
            "graph_desc.json": "1065e6041fecbf55c18891fcfb5a4e24ea941dcac3dab670423148902fe6dc55",
            "tool_desc.json": "6300f287ebf7dd04f7e8f4d76462b2fe83b823f1cccf432608818f3df67ed0d7",
            "split_ids.json": "7b3d748fb124e54f0114bc29880eabf62545b326d1dad5bc99582b71d2ae4f30",
            _REQUESTS: "2189a7561e0b0b0cf3d92f753efe2581dd54e614724ec9393723d2a340e8211b",
        },
    ),
    "taskbench/dailylife": Published(
        "taskbench-dailylife",
        *_GRAPH_PLANNING,
        "data/dailylife",
        {
            "data.json": None,
            "graph_desc.json": "911ba3c1d3bd40fddeb73e49dc34f169479ec07ef0b7d9ce71a1bf57a106e70b",
            "tool_desc.json": "64b3ed4f0f3ad199d817695bc3bb7e2f7d9bc2cae2f310821744a62ae41aee13",
            "split_ids.json": "59c82ce2f129f05732d2125d0b62d436e2e0d03111111fb6251cca449f3ad18a",
            _REQUESTS: "6f22c7cf1239c3d7c9138b8c7ce4081cefc51e2cff20ec58f4757e877b246bbc",
        },
    ),
    "mgtoolbench": Published(
        "mgtoolbench",
        "XiaoMi/toolplanner",
        "911af3a5a98950d6b61a247afd3b05b5a27b3bab",
        "data/category/coarse_instruction",
        {
            "api_instruction_5000.json": (
                "4c48c3aba1fa998bea2d13852542f40d17291b3e0db5f057db6626486a4d5e71"
            ),
            "tool_instruction_5000.json": (
                "e6b9abb5a1ed1f19ef41fc8b42a994a2800f863e691aa666cac4442b9644c7d8"
            ),
        },
    ),
}
