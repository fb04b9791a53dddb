"""What an owner's ``Input`` asks of a table: which columns make one, and which of them hold files."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..interface import Interface
from ..owntypes import shown
from .exits import BadConfiguration

Schema = dict[str, Any]
Clean = Callable[[Any], Any]


@dataclass(frozen=True)
class Shape:
    """What JSON says of ``Input``. `keys` are those of an object, "" stands for the whole of anything else.

    open: an object of any keys. strict: of no others. blobs: keys that hold bytes. nested: those that hold lists or
    objects. texts: those that an empty text fits. nullable: those that null fits. names: of keys that are aliases, the
    names of the fields where these are read too. items: how many a list has to have, where that is known. null_items:
    they may be null.
    """

    kind: str
    keys: tuple[str, ...]
    required: frozenset[str]
    open: bool
    strict: bool
    blobs: frozenset[str]
    nested: frozenset[str]
    texts: frozenset[str]
    nullable: frozenset[str] = frozenset()
    names: dict[str, str] = field(default_factory=dict)
    items: int | None = None
    null_items: bool = False
    clean: Clean = field(compare=False, repr=False, default=lambda value: value)


@dataclass(frozen=True)
class Taken:
    """Which columns make an input of another kind than a text.

    fields: (key, column) of an object; of a list its columns in order, under "". line: each line of JSON Lines is an
    input as it stands. files: columns that hold addresses of files, relative ones are of `root` or beside the data.
    folders: columns that are the names of the folders of a file. left_out: all keys of a row of JSON except these are
    of the input; None where only `fields` are.
    """

    shape: Shape
    fields: tuple[tuple[str, str], ...]
    line: bool = False
    files: frozenset[str] = frozenset()
    root: str | None = None
    folders: frozenset[str] = frozenset()
    left_out: frozenset[str] | None = None

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns in the files, each once."""
        return [name for name in dict.fromkeys(column for _, column in self.fields) if name not in self.folders]

    @property
    def required(self) -> list[str]:
        """Return the names of the columns that have to be there in each file."""
        needed = [column for key, column in self.fields if not key or key in self.shape.required]
        return [name for name in dict.fromkeys([*needed, *self.files]) if name not in self.folders]

    def missing(self, names: Sequence[str]) -> str | None:
        """Return a column that has to be there and is not among the names."""
        return next((column for column in self.required if column not in names), None)


def shape_of(interface: Interface) -> Shape:
    """Return what the owner's ``Input`` asks for."""
    whole = interface.inputs.json_schema(mode="validation")
    schemas = _Schemas(whole)
    options = schemas.options(whole)
    if not all(option.get("type") == "object" for option in options):
        kind = "list" if len(options) == 1 and options[0].get("type") == "array" else "value"
        only = {"": whole}
        least, most = options[0].get("minItems"), options[0].get("maxItems")
        return Shape(
            kind,
            ("",),
            frozenset({""}),
            False,
            False,
            *schemas.kinds(only),
            items=most if kind == "list" and least == most else None,
            null_items=kind == "list" and schemas.nullable(options[0].get("items") or {"type": "string"}),
            clean=schemas.cleaner(whole),
        )
    properties = {key: value for option in options for key, value in option.get("properties", {}).items()}
    required = frozenset.intersection(*(frozenset(option.get("required", ())) for option in options))
    others: list[Any] = [option.get("additionalProperties") for option in options]
    return Shape(
        "object",
        tuple(properties),
        required,
        any(other not in (None, False) for other in others) or not properties,
        all(other is False for other in others),
        *schemas.kinds(properties),
        names=_names(interface.input),
        clean=schemas.cleaner(whole),
    )


def _names(input_type: Any) -> dict[str, str]:
    """Return the names of the fields of a class by their aliases, where an input may have either."""
    config = getattr(input_type, "model_config", {})
    if not (config.get("populate_by_name") or config.get("validate_by_name")):
        return {}
    aliases = {name: field.validation_alias for name, field in input_type.model_fields.items()}
    return {alias: name for name, alias in aliases.items() if isinstance(alias, str)}


def taken(
    interface: Interface,
    names: Sequence[str] | None,
    chosen: Sequence[str],
    kept: Sequence[str],
    files: Sequence[str],
    root: str | None,
) -> Taken:
    """Return the columns that make an input, of a table whose columns have these names (None: lines of no object).

    chosen: what --columns says, names or FIELD=COLUMN. kept: the columns of --keep. Raises BadConfiguration.
    """
    shape = shape_of(interface)
    what = f"Input is {shown(interface.input)}"
    if names is None:
        if chosen or kept or files:
            raise BadConfiguration("lines without objects have no columns: leave out --columns, --keep and --files")
        return Taken(shape, (), line=True)
    fields = _fields(shape, names, chosen, kept, what)
    _check_there(fields, shape, names, what)
    columns = dict(fields)
    strange = [name for name in files if name not in columns and name not in columns.values()]
    if strange:
        raise BadConfiguration(f"--files {strange[0]}: that is not a column of an input; there are {listed(columns)}")
    paths = frozenset(columns.get(name, name) for name in files)
    is_open = shape.kind == "object" and shape.open and not chosen
    left_out = frozenset(kept) - set(shape.keys) if is_open else None
    return Taken(shape, tuple(fields), files=paths, root=root, left_out=left_out)


def _fields(
    shape: Shape, names: Sequence[str], chosen: Sequence[str], kept: Sequence[str], what: str
) -> list[tuple[str, str]]:
    if shape.kind != "object":
        if not chosen and len(names) == 1:
            return [("", names[0])]
        if not chosen:
            raise BadConfiguration(
                f"{what}, and the input has {len(names)} columns: say with --columns which one holds it"
                + (", or in which order columns are its items" if shape.kind == "list" else "")
                + f"; there are {listed(names)}"
            )
        if len(chosen) > 1 and shape.kind == "value":
            raise BadConfiguration(f"{what}, which one column holds; --columns says {', '.join(chosen)}")
        if len(chosen) > 1 and shape.items not in (None, len(chosen)):
            raise BadConfiguration(f"{what}, which has {shape.items} items; --columns says {', '.join(chosen)}")
        return [("", column) for column in chosen]
    renamed = dict(_pair(word) for word in chosen)
    unknown = [key for key in renamed if key not in shape.keys]
    if unknown and not shape.open:
        raise BadConfiguration(f"--columns {unknown[0]}: {what}, which has no such field; it has {listed(shape.keys)}")
    if shape.open:
        others = renamed or {name: name for name in names if name not in kept}
        return list(({key: key for key in shape.keys if key in names} | others).items())
    rest = [name for name in names if name not in shape.keys and name not in renamed.values() and name not in kept]
    if shape.strict and rest:
        raise BadConfiguration(
            f"{what} and takes no other fields, and the input has the column {rest[0]!r}: "
            "name such columns in --keep, or leave out extra='forbid'"
        )
    fields = [(key, renamed.get(key) or _column(key, names, shape)) for key in shape.keys]
    found = [(key, column) for key, column in fields if column in names or key in renamed or key in shape.required]
    if not found:
        raise BadConfiguration(f"{what}, and none of its fields is a column of the input; it has: {listed(names)}")
    return found


def _column(key: str, names: Sequence[str], shape: Shape) -> str:
    by_name = shape.names.get(key, key)
    return by_name if key not in names and by_name in names else key


def _check_there(fields: list[tuple[str, str]], shape: Shape, names: Sequence[str], what: str) -> None:
    there = Counter(names)
    for key, column in fields:
        if there[column] > 1:
            raise BadConfiguration(f"the input has {there[column]} columns {column!r}: which one is meant?")
        if column not in there:
            where = f"; --columns {key}=COLUMN says what it is called" if key else ""
            raise BadConfiguration(f"{what}, and the input has no column {column!r}; it has: {listed(names)}{where}")


def _pair(word: str) -> tuple[str, str]:
    key, mark, column = word.partition("=")
    return key, column if mark else key


def listed(names: Collection[str]) -> str:
    """Return the names of columns, with the option that separates them where the file has another delimiter."""
    mark = next((one for one in ";\t|" if any(one in name for name in names)), "")
    return (", ".join(names) or "none") + (f" (--delimiter {mark!r} separates them)" if mark else "")


class _Schemas:
    """A JSON schema and the definitions that it refers to."""

    def __init__(self, whole: Schema) -> None:
        self._defined = whole.get("$defs", {})
        self._cleaners: dict[str, Clean] = {}

    def resolved(self, schema: Schema) -> Schema:
        """Return the schema that a reference leads to."""
        while "$ref" in schema:
            schema = self._defined[schema["$ref"].rpartition("/")[2]]
        return schema

    def options(self, schema: Schema) -> list[Schema]:
        """Return the schemas of which a value has to fit one."""
        return list(map(self.resolved, _alternatives(self.resolved(schema))))

    def kinds(self, properties: Schema) -> tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str]]:
        """Return the keys that hold bytes, that hold lists or objects, that an empty text fits, and that null fits."""
        options = {key: self.options(value) for key, value in properties.items()}

        def having(test: Callable[[Schema], bool]) -> frozenset[str]:
            return frozenset(key for key, found in options.items() if any(map(test, found)))

        blobs = having(lambda option: option.get("contentEncoding") == "base64")
        nested = having(lambda option: option.get("type") in ("array", "object"))
        limited = {"format", "pattern", "enum", "const", "contentEncoding"}
        texts = having(lambda option: option.get("type", "string") == "string" and not limited & option.keys())
        # An empty cell is not a number: pydantic has a text for Decimal, too.
        texts -= having(lambda option: option.get("type") in ("number", "integer"))
        nullable = frozenset(key for key, value in properties.items() if self.nullable(value))
        return blobs, nested - texts, texts, nullable

    def cleaner(self, schema: Schema) -> Clean:
        """Return the function that takes nulls out of values of a table where they stand for what is not there."""
        reference = schema.get("$ref", "")
        if reference and reference not in self._cleaners:
            self._cleaners[reference] = lambda value: self._cleaners[reference](value)
            self._cleaners[reference] = self._cleaner(self.resolved(schema))
        return self._cleaners[reference] if reference else self._cleaner(schema)

    def _cleaner(self, schema: Schema) -> Clean:
        alternatives = [option for option in _alternatives(schema) if option.get("type") != "null"]
        if len(alternatives) != 1:
            return _same
        [option] = alternatives
        if option is not schema:
            return self.cleaner(option)
        if schema.get("type") == "array" and (clean := self.cleaner(schema.get("items") or {})) is not _same:
            return lambda value: list(map(clean, value)) if isinstance(value, list) else value
        return self._object(schema) if schema.get("type") == "object" else _same

    def _object(self, schema: Schema) -> Clean:
        properties, required = schema.get("properties", {}), schema.get("required", ())
        known = {key: self.cleaner(value) for key, value in properties.items()}
        absent = {key for key, value in properties.items() if key not in required and not self.nullable(value)}
        other = schema.get("additionalProperties")
        unknown = self.cleaner(other) if isinstance(other, dict) else _same
        gone = not isinstance(other, dict) or not self.nullable(other)

        def clean(value: Any) -> Any:
            if isinstance(value, list) and all(isinstance(item, tuple) and len(item) == 2 for item in value):
                # So Arrow gives what it calls a map.
                value = dict(value)
            if not isinstance(value, dict):
                return value
            return {
                key: known.get(key, unknown)(item)
                for key, item in value.items()
                if item is not None or not (key in absent or (key not in known and gone))
            }

        return clean

    def nullable(self, schema: Schema) -> bool:
        """Tell whether null fits a schema."""
        notes = {"title", "default", "description"}
        return any(option.get("type") == "null" or not option.keys() - notes for option in self.options(schema))


def _alternatives(schema: Schema) -> list[Schema]:
    found: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return found


def _same(value: Any) -> Any:
    return value
