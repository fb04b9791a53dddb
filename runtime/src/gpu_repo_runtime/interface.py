"""The types of an owner's model: what one input, one output and the parameters of a request are.

They are the names ``Input``, ``Output`` and ``Parameters`` of its module, or what the annotations of ``predict`` say.
A model of version 0.2, which takes texts and gives dicts without saying so, runs on with a deprecation.
"""

import json
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import GenericAlias
from typing import TYPE_CHECKING, Any

import pydantic_core
from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from .contract import ContractError, Model, refuse_async
from .owntypes import Annotations, is_class, names_in, only_bytes_field, sentence, shown, unrepeated
from .tables import TableInput, answer_values, kind_of
from .words import first_line, words_of

if TYPE_CHECKING:
    import pyarrow as pa

# An object with any JSON values: the output of a model that returns dicts without a type.
Answer = dict[str, Any]
# How bytes are written where a type says nothing of them.
ANYTHING = ConfigDict(ser_json_bytes="base64")
# A field is read by its aliases, and by its name.
BOTH_NAMES: dict[str, Any] = {"by_alias": True, "by_name": True}

DEPRECATED = (
    "{file} does not define its input and output, as in version 0.2: the input is a text and the output a dict. "
    "Write Input = str and a class Output(BaseModel) with the fields of an answer, "
    "and def predict(self, batch: list[Input]) -> list[Output]"
)
PARAMETERS = (
    "write class Parameters(BaseModel) and def predict(self, batch: list[Input], parameters: Parameters), or neither"
)


class WrongAnswer(TypeError):
    """The model returned something else than its ``Output``; ``index`` is the place of the first one in the batch."""

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


class Interface:
    """How ``model`` is called, and how its inputs and outputs are read, checked and written.

    ``deprecations`` are sentences for its owner; ``dated`` is true if the model does not define its output, as in
    version 0.2; ``no_parameters`` are the parameters of a request without. Raises ContractError.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        module = sys.modules.get(type(model).__module__)
        names = vars(module) if module else {}
        self.file = names.get("__file__") or type(model).__module__
        self._predict = self._method("predict", "predict(self, batch: list[Input]) -> list[Output]")
        self._method("load", "load(self, device: str) -> None")
        said = Annotations(self._predict, self.file)
        one, output = names.get("Input", said.batch), names.get("Output", said.answers)
        self.deprecations = [DEPRECATED.format(file=self.file)] if one is None or output is None else []
        self.dated = output is None or (output is dict and not {"Input", "Output"} & names.keys())
        kind = kind_of(said.table)
        self.table = TableInput(kind, one, self.file) if kind else None
        if self.table and output is None:
            raise ContractError(f"{self.file}: predict takes a table: write class Output(BaseModel) with its columns")
        self.input = str if one is None else one
        self.output = Answer if output in (None, dict) else output
        size: Callable[[Any], int] | None = getattr(model, "size", None)
        self.size = size if callable(size) else None
        if self.size:
            refuse_async(self.size, f"{self.file}: Model.size")
        self._inputs, self.outputs = self._adapter("Input", self.input), self._adapter("Output", self.output)
        self.inputs: TypeAdapter[Any] = TypeAdapter(self.input)
        self._hold: Callable[[Any], list[Any]] = partial(self.outputs.validator.validate_python, **BOTH_NAMES)
        self._write = self.outputs.serializer.to_json
        self.outputs_are_objects = is_class(self.output)
        self._names = frozenset(names_in(self.outputs.json_schema(mode="serialization")))
        self.is_text = self.inputs.core_schema["type"] == "str"
        self.blob = only_bytes_field(self.input)
        self.parameters: Any = names.get("Parameters", said.parameters)
        fits = is_class(self.parameters) if said.arguments == 2 else self.parameters is None
        if not fits:
            raise ContractError(f"{self.file}: Parameters and predict do not fit together: {PARAMETERS}")
        self.no_parameters = self._defaults() if self.parameters else None

    def examples(self) -> list[Any]:
        """Return the model's examples as inputs. Raises ContractError for no examples, or one that is not an Input."""
        try:
            if found := self.held(getattr(self.model, "examples", ())):
                return found
            raise TypeError("there are none")
        except TypeError as error:
            how = "write examples = (one input, another one)"
            raise ContractError(f"{self.file}: Model.examples: {error}; {how}") from None

    def as_asked(self, example: Any) -> Any:
        """Return an example as a request has it, with the aliases of its fields."""
        return self.inputs.dump_python(example, mode="json", round_trip=True, by_alias=True)

    def held(self, inputs: Sequence[Any]) -> list[Any]:
        """Return what an owner's own code gives as inputs. Raises TypeError where one is not an ``Input``."""
        if isinstance(inputs, str | bytes):
            raise TypeError(f"expected a list of inputs, got one {type(inputs).__name__}")
        try:
            return self._inputs.validate_python(list(inputs))
        except ValidationError as error:
            raise TypeError(f"not an Input: {sentence(error)}") from None

    def held_parameters(self, parameters: Any) -> Any:
        """Return what an owner's own code gives as parameters. Raises TypeError where they are not ``Parameters``."""
        if parameters is None:
            return None
        if self.parameters is None:
            raise TypeError(f"{self.file} has no Parameters, and some were given")
        try:
            return self.parameters.model_validate(parameters)
        except ValidationError as error:
            raise TypeError(f"not Parameters: {sentence(error)}") from None

    @staticmethod
    def parameters_key(parameters: BaseModel | None) -> str:
        """Return parameters as a text that differs for values which compare equal, such as 1, 1.0 and True."""
        if parameters is None:
            return ""
        return parameters.model_dump_json(exclude_unset=True, warnings=False, fallback=repr)

    def call(self, batch: list[Any], parameters: Any = None) -> list[Any]:
        """Call the model; ``parameters`` is an object of the owner's class. Raises WrongAnswer for no list of them.

        A model that takes tables is called with the inputs as a table.
        """
        # A copy of the list: a model may empty or sort it.
        inputs = self.table.of_records(batch) if self.table else [*batch]
        return self.values_of(self._called(inputs, parameters), len(batch))

    def call_table(self, table: "pa.Table", parameters: Any = None) -> Any:
        """Return what a model that takes tables returns for columns of pyarrow, one for each field of ``Input``."""
        assert self.table
        return self._called(self.table.of_arrow(table), parameters)

    def values_of(self, answer: Any, rows: int) -> list[Any]:
        """Return what predict has returned, as a list with one answer for each input. Raises WrongAnswer."""
        if self.table and not isinstance(answer, list | tuple):
            try:
                answer = answer_values(answer, rows, self.outputs_are_objects)
            except (TypeError, ValueError) as error:
                raise WrongAnswer(str(error)) from None
        if not isinstance(answer, list | tuple):
            raise WrongAnswer(f"predict returned {_named(answer)}: return a list with one answer for each input")
        if len(answer) != rows:
            raise WrongAnswer(f"predict returned {len(answer)} answers for {rows} inputs")
        return answer if isinstance(answer, list) else list(answer)

    def _called(self, batch: Any, parameters: BaseModel | None) -> Any:
        if self.parameters is None:
            return self._predict(batch)
        # A copy: what this call changes in them reaches no other one, such as the half of a batch that failed.
        own: Any = self.no_parameters if parameters is None else parameters
        return self._predict(batch, own.model_copy(deep=True))

    def checked(self, answers: Sequence[Any]) -> list[Any]:
        """Return the answers as outputs. Raises WrongAnswer for the first one that is none."""
        try:
            return self._hold(answers)
        except ValidationError as error:
            [first, *_] = error.errors(include_input=False, include_url=False, include_context=False)
        raise self._wrong(answers, first["loc"], unrepeated(first))

    def json(self, outputs: Sequence[Any]) -> bytes:
        """Return outputs in JSON, as the schema of ``Output`` promises them. Raises WrongAnswer.

        What ``checked`` does not look into, objects of the owner's classes, is held to its types here.
        """
        try:
            content: bytes = self._write(outputs, by_alias=True, warnings="error")
        except Exception:  # pydantic's, or what a serializer of the owner raises
            raise self._unwritten(outputs) from None
        if b"null" in content and (place := self._null_at(outputs)):
            raise self._wrong(outputs, place, "None or a number that is not finite, and its type has no null")
        return content

    def plain(self, outputs: Sequence[Any], *, by_alias: bool = True) -> list[Any]:
        """Return outputs as dicts, lists, texts and numbers, as JSON has them but for numbers that are not finite."""
        try:
            found = self.outputs.dump_python(list(outputs), mode="json", by_alias=by_alias, warnings="error")
        except Exception:
            raise self._unwritten(outputs) from None
        assert isinstance(found, list)
        return found

    def answers(self, inputs: Sequence[Any], parameters: Any = None) -> list[Any]:
        """Call the model with inputs as ``Model.examples`` has them, and return what JSON would say of its outputs."""
        return self.plain(self.checked(self.call(self.held(inputs), parameters)))

    def _null_at(self, outputs: Sequence[Any]) -> Sequence[int | str]:
        """Return the place of the first null that the types do not have, () where there is none.

        JSON has null for a number that is not finite, and for None where pydantic did not look.
        """
        try:
            self.outputs.validate_json(self._write(outputs, by_alias=False), **BOTH_NAMES)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False)
            return next((one["loc"] for one in faults if one["input"] is None and one["type"].endswith("_type")), ())
        return ()

    def _unwritten(self, outputs: Sequence[Any]) -> WrongAnswer:
        """Return the fault of the first output that cannot be written."""
        for index, output in enumerate(outputs):
            try:
                self._write([output], by_alias=True, warnings="error")
            except Exception as error:
                return self._wrong(outputs, [index], _unlike(error))
        return WrongAnswer("predict returned answers that cannot be written twice alike")

    def _wrong(self, answers: Sequence[Any], place: Sequence[int | str], reason: str) -> WrongAnswer:
        """Return a fault of an answer; its place is the index of the answer, then fields, and keys of dicts."""
        index, *inside = int(place[0]), *place[1:]
        # The key of a dict may be a word of the client's.
        known = ("*" if isinstance(part, str) and part not in self._names else str(part) for part in inside)
        what = _named(answers[index]) + (f" at {'.'.join(known)}" if inside else "")
        return WrongAnswer(f"predict returned {what}, which is not an Output: {reason}", index)

    def _method(self, name: str, what_to_write: str) -> Callable[..., Any]:
        found: Any = getattr(self.model, name, None)
        if not callable(found):
            raise ContractError(f"{self.file}: there is no Model.{name}: write def {what_to_write}")
        refuse_async(found, f"{self.file}: Model.{name}")
        method: Callable[..., Any] = found
        return method

    def _adapter(self, name: str, type_: Any) -> TypeAdapter[list[Any]]:
        """Return what reads and writes lists of a type. Raises ContractError for a type that JSON does not have."""
        listed: Any = GenericAlias(list, (type_,))
        try:
            adapter: TypeAdapter[list[Any]] = TypeAdapter(listed, config=ANYTHING)
            schema = TypeAdapter(type_).json_schema(mode="serialization" if name == "Output" else "validation")
        except (PydanticSchemaGenerationError, PydanticUserError, pydantic_core.SchemaError) as error:
            raise ContractError(
                f"{self.file}: {name} is {shown(type_)}, which JSON does not have: write a class {name}(BaseModel), "
                f"or str, float, list[...] ({first_line(error)})"
            ) from error
        if '"format": "binary"' in json.dumps(schema):
            raise ContractError(
                f"{self.file}: {name} is or contains bytes, which JSON does not have: write Bytes, "
                "from gpu_repo_runtime.inputs import Bytes"
            )
        return adapter

    def _defaults(self) -> Any:
        self._adapter("Parameters", self.parameters)
        try:
            return self.parameters()
        except ValidationError as error:
            raise ContractError(
                f"{self.file}: Parameters needs a default for each field, for requests without: {sentence(error)}"
            ) from None


def _unlike(error: Exception) -> str:
    """Return what pydantic says of a value that is unlike its type, without the value."""
    if not isinstance(error, pydantic_core.PydanticSerializationError):
        return f"its serializer raised {type(error).__name__}"
    words = words_of(error)
    found = re.search(r"Expected `[^`]*`|unknown type: <[^<>]*>", words)
    field = re.search(r"field_name='(\w+)'", words)
    return (found[0] if found else "JSON does not have it") + (f" in {field[1]}" if field else "")


def _named(value: Any) -> str:
    return "None" if value is None else type(value).__name__
