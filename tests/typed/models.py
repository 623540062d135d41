"""Classes as users write them, by each library, with the schemas that become of them; and refusals with their lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated, Any, Final, Generic, Literal, NotRequired, TypedDict, TypeVar

import attrs
import msgspec
import pydantic
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from aggserver.typed.markers import Extra, JSONName, MapKey, Rule
from aggserver.typed.metadata import Metadata
from aggserver.typed.quantity import QUANTITY_SCHEMA, Quantity

T = TypeVar("T")
KEEP = {"x-kubernetes-preserve-unknown-fields": True}
STRING, INTEGER = {"type": "string"}, {"type": "integer"}


@dataclass(frozen=True)
class Model:
    """properties: of the schema. values: objects that it takes, without metadata. wrong: objects that it refuses."""

    cls: Any
    properties: dict[str, Any]
    required: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)
    values: tuple[dict[str, Any], ...] = ()
    wrong: tuple[dict[str, Any], ...] = ()

    @property
    def name(self) -> str:
        return str(self.cls.__name__)


# --- dataclasses ---


@dataclass
class SiteSpec:
    image: str
    replicas: int = 1
    api_url: str = ""
    class_: str | None = None
    url_2x: Annotated[str | None, JSONName("url2X")] = None
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass
class SiteStatus:
    ready: int = 0
    observed_generation: int = 0


@dataclass
class Site:
    """A site of the shop.

    It has an image.
    """

    metadata: Metadata
    spec: SiteSpec
    status: SiteStatus = field(default_factory=SiteStatus)


SPEC = {
    "type": "object",
    "properties": {
        "image": STRING,
        "replicas": {**INTEGER, "default": 1},
        "apiUrl": {**STRING, "default": ""},
        "class": STRING,
        "url2X": STRING,
    },
    "required": ["image"],
}
STATUS = {
    "type": "object",
    "properties": {"ready": {**INTEGER, "default": 0}, "observedGeneration": {**INTEGER, "default": 0}},
    "default": {},
}


@dataclass
class Pages(Generic[T]):
    first: T
    others: list[T]


@dataclass
class StringPages(Pages[str]):
    title: str


@dataclass
class Generics:
    metadata: Metadata
    numbers: Pages[int]
    texts: StringPages
    nested: Pages[Pages[bool]]


class Item(TypedDict):
    name: str
    size_in_mb: NotRequired[int]


class Basket(TypedDict):
    metadata: Metadata
    things: Annotated[list[Item], MapKey("name")]


@dataclass
class Named:
    metadata: Annotated[Metadata, Extra({"properties": {"name": {"type": "string", "maxLength": 5}}})]
    size: Final[int] = 1


@dataclass
class Ruled:
    metadata: Metadata
    spec: Annotated[SiteStatus, Rule("self.ready <= self.observedGeneration", "too ready")]


# --- attrs ---


@attrs.define
class AttrsDisk:
    """A disk."""

    metadata: Metadata
    _secret: int = attrs.field(default=1)
    percent_used: float = attrs.field(
        default=0.0, validator=attrs.validators.and_(attrs.validators.ge(0), attrs.validators.le(100))
    )
    label: str = attrs.field(default="none", validator=attrs.validators.max_len(5))
    mounts: list[str] = attrs.Factory(list)
    size: Quantity | None = None

    @label.validator
    def _check(self, attribute: Any, value: str) -> None:
        if value == "bad":
            raise ValueError("must not be bad")


# --- pydantic ---


class PydanticHttp(pydantic.BaseModel):
    kind: Literal["http", "https"]
    port: int = 80


class PydanticExec(pydantic.BaseModel):
    kind: Literal["exec"]
    command: list[str]


class Price(pydantic.BaseModel):
    """What it costs."""

    amount: int = Field(ge=0)


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class PydanticSpec(pydantic.BaseModel):
    model_config = ConfigDict(extra="forbid", title="Other", use_enum_values=True)

    image_name: str = Field(alias="imageName", pattern="^[a-z:]+$", description="The image.", examples=["web:1"])
    probe: Annotated[PydanticHttp | PydanticExec, Field(discriminator="kind")]
    url: pydantic.HttpUrl | None = None
    wait: timedelta = timedelta(days=2, hours=1)
    names: list[str] = ["a"]
    price: Price = Price(amount=1)
    old: int = Field(0, deprecated="use price")
    even: pydantic.PositiveInt = 2
    size: Size = Size.SMALL
    anything: pydantic.JsonValue = None

    @pydantic.field_validator("even")
    @classmethod
    def _is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value

    @pydantic.model_validator(mode="after")
    def _fits(self) -> PydanticSpec:
        if self.names == ["small"] and self.size != "small":
            raise ValueError("only small ones have that name")
        return self


class PydanticSite(pydantic.BaseModel):
    metadata: Metadata
    spec: PydanticSpec

    @pydantic.computed_field(description="Both.")  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return self.spec.even * 2


class Generated(pydantic.BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    metadata: Metadata
    image_name: str


class Keeping(pydantic.BaseModel):
    model_config = ConfigDict(extra="allow")

    metadata: Metadata
    known: int = 1


class Summary(pydantic.BaseModel):
    ready: int = 0

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def phase(self) -> str:
        return "Ready" if self.ready else "Pending"


class Summarized(pydantic.BaseModel):
    metadata: Metadata
    status: Summary = Summary()


@pydantic.dataclasses.dataclass
class PydanticData:
    metadata: Metadata
    when: datetime
    count: int = Field(1, alias="howMany", ge=1)


class GenericModel(pydantic.BaseModel, Generic[T]):
    metadata: Metadata
    item: T


# --- msgspec ---


class StructHttp(msgspec.Struct, tag="http"):
    port: int
    path: str = "/"


class StructExec(msgspec.Struct, tag="exec"):
    command: list[str]


class StructSpec(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    image_name: Annotated[str, msgspec.Meta(pattern="^[a-z:]+$", description="The image.", examples=["web:1"])]
    url_2x: str | msgspec.UnsetType = msgspec.UNSET
    probe: StructHttp | StructExec | None = None
    names: list[str] = []
    wait: timedelta | None = None
    own: int = msgspec.field(name="OWN", default=1)
    _private: int = 0


class StructSite(msgspec.Struct):
    """A site."""

    metadata: Metadata
    spec: StructSpec


def union(tag: str, values: list[Any], properties: dict[str, Any], *rules: tuple[str, str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {tag: {"type": "string", "enum": values}, **properties},
        "required": [tag],
        "x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules],
    }


WORDS = {"type": "array", "items": STRING}
MODELS = [
    Model(
        Site,
        {"spec": SPEC, "status": STATUS},
        ("spec",),
        {"description": "A site of the shop.\n\nIt has an image."},
        values=({"spec": {"image": "a", "replicas": 2, "apiUrl": "b", "class": "c", "url2X": "d"}},),
        wrong=({}, {"spec": {"image": "a", "api_url": "b"}}),
    ),
    Model(
        Generics,
        {
            "numbers": {
                "type": "object",
                "properties": {"first": INTEGER, "others": {"type": "array", "items": INTEGER}},
                "required": ["first", "others"],
            },
            "texts": {
                "type": "object",
                "properties": {"first": STRING, "others": WORDS, "title": STRING},
                "required": ["first", "others", "title"],
            },
            "nested": {
                "type": "object",
                "properties": {
                    "first": (
                        inner := {
                            "type": "object",
                            "properties": {
                                "first": {"type": "boolean"},
                                "others": {"type": "array", "items": {"type": "boolean"}},
                            },
                            "required": ["first", "others"],
                        }
                    ),
                    "others": {"type": "array", "items": inner},
                },
                "required": ["first", "others"],
            },
        },
        ("numbers", "texts", "nested"),
        values=(
            {
                "numbers": {"first": 1, "others": [2]},
                "texts": {"first": "a", "others": [], "title": "t"},
                "nested": {"first": {"first": True, "others": []}, "others": []},
            },
        ),
    ),
    Model(
        Basket,
        {
            "things": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": STRING, "sizeInMb": INTEGER}, "required": ["name"]},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            }
        },
        ("things",),
        values=({"things": [{"name": "a", "sizeInMb": 1}, {"name": "b"}]},),
    ),
    Model(
        Named,
        {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}},
            "size": {**INTEGER, "default": 1},
        },
    ),
    Model(
        Ruled,
        {
            "spec": {
                "type": "object",
                "properties": STATUS["properties"],
                "x-kubernetes-validations": [{"rule": "self.ready <= self.observedGeneration", "message": "too ready"}],
            }
        },
        ("spec",),
        values=({"spec": {"ready": 1, "observedGeneration": 1}},),
        wrong=({"spec": {"ready": 2, "observedGeneration": 1}},),
    ),
    Model(
        AttrsDisk,
        {
            "percentUsed": {"type": "number", "minimum": 0, "maximum": 100, "default": 0.0},
            "label": {"type": "string", "maxLength": 5, "default": "none"},
            "mounts": {"type": "array", "items": STRING, "default": []},
            "size": QUANTITY_SCHEMA,
        },
        more={"description": "A disk."},
        values=({"percentUsed": 1.5, "label": "x", "mounts": ["/"], "size": "1Gi"},),
        wrong=({"percentUsed": 101}, {"label": "longer"}),
    ),
    Model(
        PydanticSite,
        {
            "spec": {
                "type": "object",
                "properties": {
                    "imageName": {"type": "string", "pattern": "^[a-z:]+$", "description": "The image."},
                    "probe": union(
                        "kind",
                        ["http", "https", "exec"],
                        {"port": INTEGER, "command": WORDS},
                        ('!(self.kind in ["http", "https"]) || (!has(self.command))', "kind http or https can't have command"),
                        (
                            'self.kind != "exec" || (has(self.command) && !has(self.port))',
                            "kind exec needs command and can't have port",
                        ),
                    ),
                    "url": {"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083},
                    "wait": {"type": "string", "format": "duration", "default": "49h0m0s"},
                    "names": {**WORDS, "default": ["a"]},
                    "price": {
                        "type": "object",
                        "properties": {"amount": {"type": "integer", "minimum": 0}},
                        "required": ["amount"],
                        "description": "What it costs.",
                        "default": {"amount": 1},
                    },
                    "old": {"type": "integer", "default": 0, "description": "Deprecated: use price."},
                    "even": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "default": 2},
                    "size": {"type": "string", "enum": ["small", "large"], "default": "small"},
                    "anything": KEEP,
                },
                "required": ["imageName", "probe"],
            }
        },
        ("spec",),
        values=(
            {
                "spec": {
                    "imageName": "web",
                    "probe": {"kind": "https", "port": 1},
                    "url": "http://a/",
                    "wait": "1m0s",
                    "names": [],
                    "price": {"amount": 3},
                    "old": 1,
                    "even": 4,
                    "size": "large",
                    "anything": {"a": [1]},
                }
            },
        ),
        wrong=(
            {"spec": {"imageName": "web", "probe": {"kind": "https", "command": []}}},
            {"spec": {"imageName": "web", "probe": {"kind": "exec"}}},
            {"spec": {"imageName": "WEB", "probe": {"kind": "http"}}},
            {"spec": {"image_name": "web", "probe": {"kind": "http"}}},
        ),
    ),
    Model(Generated, {"imageName": STRING}, ("imageName",), values=({"imageName": "a"},), wrong=({"image_name": "a"},)),
    Model(Keeping, {"known": {**INTEGER, "default": 1}}, more=KEEP, values=({"known": 2, "other": {"x": 1}},)),
    Model(
        Summarized,
        {
            "status": {
                "type": "object",
                "properties": {"ready": {**INTEGER, "default": 0}, "phase": STRING},
                "default": {},
            }
        },
    ),
    Model(
        PydanticData,
        {"when": {"type": "string", "format": "date-time"}, "howMany": {"type": "integer", "minimum": 1, "default": 1}},
        ("when",),
        values=({"when": "2026-01-01T00:00:00Z", "howMany": 2},),
        wrong=({"when": "2026-01-01T00:00:00Z", "howMany": 0},),
    ),
    Model(GenericModel[int], {"item": INTEGER}, ("item",), values=({"item": 1},), wrong=({"item": "a"},)),
    Model(
        StructSite,
        {
            "spec": {
                "type": "object",
                "properties": {
                    "imageName": {"type": "string", "pattern": "^[a-z:]+$", "description": "The image."},
                    "url2X": STRING,
                    "probe": union(
                        "type",
                        ["http", "exec"],
                        {"port": INTEGER, "path": STRING, "command": WORDS},
                        (
                            'self.type != "http" || (has(self.port) && !has(self.command))',
                            "type http needs port and can't have command",
                        ),
                        (
                            'self.type != "exec" || (has(self.command) && !has(self.port) && !has(self.path))',
                            "type exec needs command and can't have port, path",
                        ),
                    ),
                    "names": {**WORDS, "default": []},
                    "wait": {"type": "string", "format": "duration"},
                    "OWN": {**INTEGER, "default": 1},
                },
                "required": ["imageName"],
            }
        },
        ("spec",),
        {"description": "A site."},
        values=(
            {
                "spec": {
                    "imageName": "web",
                    "url2X": "u",
                    "probe": {"type": "exec", "command": ["a"]},
                    "names": ["b"],
                    "wait": "1s",
                    "OWN": 2,
                }
            },
        ),
        wrong=({"spec": {"imageName": "web", "probe": {"type": "exec", "command": [], "path": "/"}}},),
    ),
]
