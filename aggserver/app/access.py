"""Access: puts authorization in `aggserver dev` together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from aggserver.admission.chain import Mutating
from aggserver.app.tasks import Task
from aggserver.authorization.standalone import StandaloneAuthorizer, bootstrap_policy, empty_graph
from aggserver.controllers.node_follower import NodeFollower
from aggserver.controllers.roles import RoleController
from aggserver.endpoints.request import Filter
from aggserver.options import Options, is_controller_enabled
from aggserver.registry.store import Store
from aggserver.standalone.escalation import EscalationCheck

__all__ = ["Access", "takes_anonymous"]

log = logging.getLogger("aggserver")


def takes_anonymous(options: Options) -> bool:
    """Whether requests without credentials are authenticated as anonymous. As upstream, not with AlwaysAllow."""
    if options.anonymous_auth and "AlwaysAllow" in options.authorization_mode:
        log.warning("requests without credentials get 401, since --authorization-mode=AlwaysAllow would allow them everything")
        return False
    return options.anonymous_auth


class Access:
    """The authorizers of `aggserver dev`, and what keeps their roles.

    With the built-in kinds, roles and bindings are the server's own; without them, only the bootstrap roles exist.

    stores: returns the store of a built-in resource; called when roles are needed.

    plugins: of admission, after all others that may change an object. filters: before authorization. tasks: in the background.
    authorizer: for requests. reviewer: for access reviews, which ignore the open paths, as in kube-apiserver.
    """

    def __init__(self, options: Options, stores: Callable[[str, str], Store]) -> None:
        self.plugins: Sequence[Mutating] = ()
        self.filters: Mapping[str, Filter] = {}
        self.tasks: Sequence[Task] = ()
        policy, graph = bootstrap_policy, empty_graph
        if options.kinds != "none":
            aggregates = is_controller_enabled("clusterrole-aggregation-controller", options.controllers)
            roles = RoleController(stores, aggregates=aggregates)
            policy = roles.policy
            self.filters = {"roles": roles.before}
            nodes = NodeFollower(stores)
            graph = nodes.graph
            self.tasks = [("controller of roles", roles.run), ("graph of nodes", nodes.run)]
        modes = options.authorization_mode
        self.authorizer = StandaloneAuthorizer(policy, graph, modes=modes, open_paths=options.authorization_always_allow_paths)
        self.reviewer = StandaloneAuthorizer(policy, graph, modes=modes, open_paths=())
        if options.kinds != "none":
            self.plugins = [EscalationCheck(self.authorizer, policy, stores)]
