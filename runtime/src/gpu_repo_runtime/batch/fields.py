"""Which columns of the input make an owner's ``Input``: the fields of a class, one value, or the items of a list."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..interface import Interface
from ..owntypes import shown
from .exits import BadConfiguration

Schema = dict[str, Any]
ITEM = "[]"  # the key of the items of a list


@dataclass(frozen=True)
class Shape:
    """What the JSON schema of ``Input`` says. `keys` are those of an object; "" is the whole of anything else.

    is_open: an object of any keys. forbids: no other key than these. blobs: keys of bytes. nested: keys of lists or
    objects. texts: keys that an empty text fits. nullable: keys that null fits. ITEM: the items of a list.
    """

    is_object: bool
    is_list: bool
    keys: tuple[str, ...]
    required: frozenset[str]
    is_open: bool
    forbids: bool
    blobs: frozenset[str]
    nested: frozenset[str]
    texts: frozenset[str]
    nullable: frozenset[str]


@dataclass(frozen=True)
class InputColumns:
    """The columns of inputs that are not texts.

    fields: (key, column) of an object; of another input its columns in order, under "". line: each line of JSON Lines
    is an input. files: columns with addresses of files, which are relative to `root` or to the data file. left_out:
    the keys of a row of JSON that are not of the input; None where only `fields` are.
    """

    shape: Shape
    fields: tuple[tuple[str, str], ...]
    line: bool = False
    files: frozenset[str] = frozenset()
    root: str | None = None
    left_out: frozenset[str] | None = None

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns, each once."""
        return list(dict.fromkeys(column for _, column in self.fields))

    @property
    def required(self) -> list[str]:
        """Return the names of the columns that each file must contain."""
        needed = [column for key, column in self.fields if not key or key in self.shape.required]
        return list(dict.fromkeys([*needed, *self.files]))


def shape_of(interface: Interface) -> Shape:
    """Return what the owner's ``Input`` consists of."""
    whole = interface.inputs.json_schema(mode="validation")
    defined = whole.get("$defs", {})
    options = _options(whole, defined)
    is_object = all(option.get("type") == "object" for option in options)
    fields = {"": whole}
    required, others = frozenset({"", ITEM}), [None]
    if is_object:
        fields = {key: value for option in options for key, value in option.get("properties", {}).items()}
        required = frozenset.intersection(*(frozenset(option.get("required", ())) for option in options))
        others = [option.get("additionalProperties") for option in options]
    kinds = {key: _options(value, defined) for key, value in fields.items()}
    items = [one for option in options for one in (option.get("items"), *option.get("prefixItems", ()))]
    kinds[ITEM] = [one for item in items if item is not None for one in _options(item, defined)]

    def having(test: Callable[[Schema], bool]) -> frozenset[str]:
        return frozenset(key for key, found in kinds.items() if any(map(test, found)))

    limited = {"format", "pattern", "enum", "const", "contentEncoding"}
    texts = having(lambda one: one.get("type", "string") == "string" and not limited & one.keys())
    # An empty cell is not a number: pydantic accepts a text for a Decimal too.
    texts -= having(lambda one: one.get("type") in ("number", "integer"))
    return Shape(
        is_object,
        is_list=any(option.get("type") == "array" for option in options),
        keys=tuple(fields),
        required=required,
        is_open=is_object and (not fields or any(other not in (None, False) for other in others)),
        forbids=all(other is False for other in others),
        blobs=having(lambda one: one.get("contentEncoding") == "base64"),
        nested=having(lambda one: one.get("type") in ("array", "object")) - texts,
        texts=texts,
        nullable=having(lambda one: one.get("type") == "null" or not one.keys() - {"title", "default", "description"}),
    )


def _options(schema: Schema, defined: Schema) -> list[Schema]:
    """Return the schemas of which a value has to fit one."""
    while "$ref" in schema:
        schema = defined[schema["$ref"].rpartition("/")[2]]
    found = schema.get("anyOf") or schema.get("oneOf")
    return [one for option in found for one in _options(option, defined)] if found else [schema]


def input_columns(
    interface: Interface,
    names: Sequence[str] | None,
    chosen: Sequence[str],
    kept: Sequence[str],
    files: Sequence[str],
    root: str | None,
) -> InputColumns:
    """Return the columns that make an input, of a table whose columns have these names (None: lines of no object).

    chosen: what --columns says, names or FIELD=COLUMN. kept: the columns of --keep. Raises BadConfiguration.
    """
    shape = shape_of(interface)
    if names is None:
        if chosen or kept or files:
            raise BadConfiguration("lines without objects have no columns: leave out --columns, --keep and --files")
        return InputColumns(shape, (), line=True)
    own = _of_object if shape.is_object else _of_value
    fields = own(shape, names, chosen, kept, shown(interface.input))
    for key, column in fields:
        if names.count(column) > 1:
            raise BadConfiguration(f"the input has {names.count(column)} columns {column!r}: which one is meant?")
        if column not in names:
            which = f"; rename another one with --columns {key}=COLUMN" if key == column else ""
            what = f"field {key!r} of Input" if key else "Input"
            raise BadConfiguration(
                f"{what} needs a column {column!r}, and the input has none{which}; its columns: {listed(names)}"
            )
    columns = dict(fields)
    strange = [name for name in files if name not in columns and name not in columns.values()]
    if strange:
        raise BadConfiguration(f"--files {strange[0]}: that is not a column of an input; there are {listed(columns)}")
    left_out = frozenset(kept) - set(shape.keys) if shape.is_open and not chosen else None
    return InputColumns(
        shape, tuple(fields), files=frozenset(columns.get(n, n) for n in files), root=root, left_out=left_out
    )


def _of_value(
    shape: Shape, names: Sequence[str], chosen: Sequence[str], kept: Sequence[str], what: str
) -> list[tuple[str, str]]:
    if not chosen and len(names) != 1:
        how = "choose one with --columns" + (", or several in the order of the items" if shape.is_list else "")
        raise BadConfiguration(f"Input is {what}, and the input has {len(names)} columns: {how}; {listed(names)}")
    if len(chosen) > 1 and not shape.is_list:
        raise BadConfiguration(f"Input is {what}, which is one column; --columns names {', '.join(chosen)}")
    return [("", column) for column in chosen or names]


def _of_object(
    shape: Shape, names: Sequence[str], chosen: Sequence[str], kept: Sequence[str], what: str
) -> list[tuple[str, str]]:
    renamed = {key: column or key for key, _, column in (word.partition("=") for word in chosen)}
    if shape.is_open:
        others = renamed or {name: name for name in names if name not in kept}
        return list(({key: key for key in shape.keys if key in names} | others).items())
    if unknown := [key for key in renamed if key not in shape.keys]:
        raise BadConfiguration(f"--columns {unknown[0]}: {what} has no such field; it has {listed(shape.keys)}")
    rest = set(names) - {*shape.keys, *renamed.values(), *kept}
    if shape.forbids and rest:
        raise BadConfiguration(
            f"{what} forbids other fields, and the input has the column {min(rest)!r}: "
            "name such columns in --keep, or leave out extra='forbid'"
        )
    fields = [(key, renamed.get(key, key)) for key in shape.keys]
    found = [(key, column) for key, column in fields if column in names or key in renamed or key in shape.required]
    if not found:
        raise BadConfiguration(f"no field of {what} ({listed(shape.keys)}) is a column of the input ({listed(names)})")
    return found


def listed(names: Collection[str]) -> str:
    """Return the names of columns, with the option that separates them where the file has another delimiter."""
    mark = next((one for one in ";\t|" if any(one in name for name in names)), "")
    return (", ".join(names) or "none") + (f" (--delimiter {mark!r} separates them)" if mark else "")
