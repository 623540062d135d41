"""Kubelets: what the checks of kubelets' writes need beside the objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from aggserver.authorization.delegating import Authorizer

__all__ = ["Kubelets"]


class Kubelets(NamedTuple):
    """common_name: of the subject of a certificate signing request (PEM); raises ValueError."""

    authorizer: Authorizer
    common_name: Callable[[bytes], str]
