"""The API of Kubernetes' sample-apiserver: Flunders and Fischers, its checks, its ban of names, its versions and conversion.

aggserver dev --app wardle:app -- kubectl get flunders -A
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from aggserver import App, FieldError, Forbidden, Metadata, Request


@dataclass
class Spec:
    flunder_reference: str | None = None  # a name of another flunder, mutually exclusive to the next
    fischer_reference: str | None = None
    reference_type: str | None = None


@dataclass
class Status: ...


@dataclass
class Flunder:
    metadata: Metadata
    spec: Spec = field(default_factory=Spec)
    status: Status = field(default_factory=Status)


@dataclass
class OldSpec:
    reference: str | None = None  # a name of another flunder or fischer, depending on the type
    reference_type: str | None = None  # Flunder, if a reference is set


@dataclass
class OldFlunder:
    metadata: Metadata
    spec: OldSpec = field(default_factory=OldSpec)
    status: Status = field(default_factory=Status)


@dataclass
class Fischer:
    metadata: Metadata
    disallowed_flunders: list[str] = field(default_factory=list)


DEPRECATED = "wardle.example.com/v1alpha1 Flunder is deprecated in v1.3+, unavailable in v1.10+"
app = App()
flunders = app.stored("wardle.example.com/v1beta1", Flunder)
fischers = app.stored("wardle.example.com/v1alpha1", Fischer, scope="Cluster")


@flunders.default
async def ban(request: Request[None], new: Flunder, old: Flunder | None) -> None:
    if old is None and any(new.metadata.name in each.disallowed_flunders for each in await fischers.list()):
        raise Forbidden("this name may not be used, please change the resource name")


@flunders.validate
def check(request: Request[None], new: Flunder, old: Flunder | None) -> Iterable[FieldError]:
    if old is not None:
        return  # upstream checks no updates
    flunder, fischer, kind = new.spec.flunder_reference, new.spec.fischer_reference, new.spec.reference_type
    wrong = [
        (flunder and fischer, "fischer", "cannot be set with flunderReference at the same time"),
        (flunder and kind != "Flunder", "flunder", "cannot be set if referenceType is not Flunder"),
        (fischer and kind != "Fischer", "fischer", "cannot be set if referenceType is not Fischer"),
        (not fischer and kind == "Fischer", "fischer", "cannot be empty if referenceType is Fischer"),
        (not flunder and kind == "Flunder", "flunder", "cannot be empty if referenceType is Flunder"),
    ]
    for which, message in [each[1:] for each in wrong if each[0]][:1]:
        yield FieldError(f".spec.{which}Reference", message, (flunder if which == "flunder" else fischer) or "")
    if kind not in (None, "", "Flunder", "Fischer"):
        yield FieldError(".spec.referenceType", "must be Flunder or Fischer", kind)


def up(old: OldFlunder) -> Flunder:
    kind = old.spec.reference_type or ("Flunder" if old.spec.reference else None)
    flunder, fischer = (old.spec.reference if kind == each else None for each in ("Flunder", "Fischer"))
    return Flunder(old.metadata, Spec(flunder, fischer, kind if kind in ("Flunder", "Fischer") else None))


def down(new: Flunder) -> OldFlunder:
    name = {"Flunder": new.spec.flunder_reference, "Fischer": new.spec.fischer_reference}.get(new.spec.reference_type or "")
    return OldFlunder(new.metadata, OldSpec(name, new.spec.reference_type))


flunders.version("v1alpha1", OldFlunder, up=up, down=down, deprecated=DEPRECATED, loses=[".spec"])
