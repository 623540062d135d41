"""kube-apiserver and aggserver with the same definitions and namespaces, for the tests that ask both the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.controlplane.cluster import Cluster
from tests.integration.comparison import Case, Seen, comparable, play
from tests.integration.raw import Client
from tests.integration.server import NO_COLLECTOR, Standalone, running
from tests.integration.websockets import Asked, open_websocket
from tests.waiting import KUBECTL_LIMIT

__all__ = ["Side", "both", "played"]


@dataclass(frozen=True)
class Side:
    """One of the two servers. stranger: somebody without a certificate."""

    client: Client
    stranger: Client

    def play(self, name: str, case: Case) -> list[Seen]:
        return play(case, name, self.client, self.stranger)

    def upgrade(self, asked: Asked) -> tuple[Any, ...]:
        """Status, headers, body, messages; pongs first, since they come between the events by chance."""
        seen = open_websocket(self.stranger if asked.stranger else self.client, asked)
        messages = sorted(map(list, seen.messages), key=lambda message: message[0] != "pong")
        return seen.status, seen.headers, comparable(seen.body), comparable(messages)


@contextmanager
def both(
    cluster: Cluster, folder: Path, definitions: Sequence[dict[str, Any]], namespaces: Iterable[str]
) -> Iterator[tuple[Side, Side]]:
    """kube-apiserver and an aggserver of its own, with these definitions established; the cluster is left without them."""
    with ExitStack() as stack:
        # kube-apiserver does not migrate by itself, and kube-controller-manager notices new kinds after half a minute only.
        server = Standalone(folder / "data", "--migrate-storage=false", NO_COLLECTOR)
        stack.enter_context(running(server))
        pair = []
        for kubeconfig in (cluster.kubeconfig, server.kubeconfig):
            _plant(cluster, kubeconfig, definitions, namespaces)
            client = stack.enter_context(Client(kubeconfig))
            pair.append(Side(client, stack.enter_context(Client(kubeconfig, certificate=False))))
        yield pair[0], pair[1]
        cluster.kubectl("delete", "namespace", *namespaces, "--wait=false")
        if definitions:
            cluster.kubectl("delete", "crd", *(entry["metadata"]["name"] for entry in definitions), "--wait=false")


def played(sides: tuple[Side, Side], name: str, case: Case) -> tuple[list[Seen], list[Seen]]:
    """What kube-apiserver and aggserver answer; both are asked at once, since watches take their second."""
    with ThreadPoolExecutor(2) as pool:
        upstream, ours = pool.map(lambda side: side.play(name, case), sides)
    return upstream, ours


def _plant(cluster: Cluster, kubeconfig: Path, definitions: Iterable[dict[str, Any]], namespaces: Iterable[str]) -> None:
    made = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces]
    # The line first: what begins with a brace kubectl takes for a stream of JSON, which has no such lines.
    documents = "".join(f"---\n{json.dumps(entry)}\n" for entry in (*definitions, *made))
    cluster.kubectl("create", "-f", "-", user=kubeconfig, input=documents)
    names = [f"crd/{entry['metadata']['name']}" for entry in definitions]
    if names:
        cluster.kubectl("wait", "--for=condition=Established", *names, KUBECTL_LIMIT, user=kubeconfig)
