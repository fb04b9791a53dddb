"""The types of an owner's model: what one input, one output and the parameters of a request are.

They are the names ``Input``, ``Output`` and ``Parameters`` of its module, or what the annotations of ``predict`` say.
A model of version 0.2, which takes texts and gives dicts without saying so, runs on with a deprecation.
"""

import json
import re
import sys
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from functools import partial
from types import GenericAlias
from typing import TYPE_CHECKING, Any

import pydantic_core
from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from .contract import ContractError, Model, ran, refuse_async
from .owntypes import Annotations, names_in, only_bytes_field, sentence, shown, unrepeated
from .tables import TableInput, answer_values
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
LENGTHS = "{file}: lengths(texts) is from version 0.2: write def size(self, one: Input) -> int"


class WrongAnswer(TypeError):
    """The model returned something else than its ``Output``; ``index`` is the place of the first one in the batch."""

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


class Interface:
    """How ``model`` is called, and how its inputs and outputs are read, checked and written.

    ``deprecations`` are sentences for its owner; ``dated`` is true if the model does not define its output, as in
    version 0.2. Raises ContractError.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        module = sys.modules.get(type(model).__module__)
        self.file = getattr(module, "__file__", None) or type(model).__module__
        self._predict = self._method("predict", "predict(self, batch: list[Input]) -> list[Output]")
        self._method("load", "load(self, device: str) -> None")
        self.deprecations: list[str] = []
        said = Annotations(self._predict, self.file)
        names = vars(module) if module else {}
        self.input = self._type("Input", names, said.batch)
        self.output = self._type("Output", names, said.answers)
        self.parameters = self._parameters(names, said)
        self.table = TableInput(said.table, self.input, self.file) if said.table else None
        if self.table and self.output is None:
            raise ContractError(f"{self.file}: predict takes a table: write class Output(BaseModel) with its columns")
        plain_dict = self.output is dict and not {"Input", "Output"} & names.keys()
        self.dated = self.output is None or plain_dict
        if self.input is None or self.output is None:
            self.deprecations.append(DEPRECATED.format(file=self.file))
        self.input = str if self.input is None else self.input
        self.output = Answer if self.output in (None, dict) else self.output
        size: Callable[[Any], int] | None = getattr(model, "size", None)
        self.size = size if callable(size) else None
        if self.size:
            refuse_async(self.size, f"{self.file}: Model.size")
        if self.size is None and hasattr(model, "lengths"):
            self.deprecations.append(LENGTHS.format(file=self.file))
        self.inputs = self._adapter("Input", self.input)
        self.outputs: TypeAdapter[list[Any]] = self._adapter("Output", self.output, many=True)
        self._hold: Callable[[Any], list[Any]] = partial(self.outputs.validator.validate_python, **BOTH_NAMES)
        self._write = self.outputs.serializer.to_json
        self.outputs_are_objects = isinstance(self.output, type) and issubclass(self.output, BaseModel)
        self._names = frozenset(names_in(self.outputs.json_schema(mode="serialization")))
        self._parameters_adapter = None if self.parameters is None else self._adapter("Parameters", self.parameters)
        self.no_parameters = self._defaults()
        self.is_text = self.inputs.core_schema["type"] == "str"
        self.blob = only_bytes_field(self.input)

    def examples(self) -> list[Any]:
        """Return the model's examples as inputs. Raises ContractError where one is none."""
        examples = []
        given: Any = getattr(self.model, "examples", None)
        if isinstance(given, str | bytes) or not hasattr(given, "__len__"):
            what = "there are no Model.examples" if given is None else f"Model.examples is a {type(given).__name__}"
            raise ContractError(f"{self.file}: {what}: write examples = (one input, another one)")
        for index, example in enumerate(given):
            try:
                examples.append(self.inputs.validate_python(example))
            except ValidationError as error:
                raise ContractError(
                    f"{self.file}: Model.examples[{index}] is not an Input: {sentence(error)}"
                ) from None
        if not examples:
            raise ContractError(f"{self.file}: Model.examples is empty: give at least one real input")
        return examples

    def as_asked(self, example: Any) -> Any:
        """Return an example as a request has it, with the aliases of its fields."""
        return self.inputs.dump_python(example, mode="json", round_trip=True, by_alias=True)

    def held(self, inputs: Sequence[Any]) -> list[Any]:
        """Return what an owner's own code gives as inputs. Raises TypeError where one is not an ``Input``."""
        if isinstance(inputs, str | bytes):
            raise TypeError(f"give a list of inputs, and not one {type(inputs).__name__}")
        try:
            return [self.inputs.validate_python(one) for one in inputs]
        except ValidationError as error:
            raise TypeError(f"what was given is not an Input of {self.file}: {sentence(error)}") from None

    def held_parameters(self, parameters: Any) -> Any:
        """Return what an owner's own code gives as parameters. Raises TypeError where they are not ``Parameters``."""
        if parameters is None:
            return None
        if self._parameters_adapter is None:
            raise TypeError(f"{self.file} has no Parameters, and some were given")
        try:
            return self._parameters_adapter.validate_python(parameters)
        except ValidationError as error:
            raise TypeError(f"what was given does not make Parameters of {self.file}: {sentence(error)}") from None

    def parameters_key(self, parameters: Any) -> str:
        """Return parameters as a text that differs for values which compare equal, such as 1, 1.0 and True."""
        try:
            assert self._parameters_adapter
            return self._parameters_adapter.dump_json(parameters, exclude_unset=True).decode()
        except Exception:  # a field that JSON does not have
            return repr(parameters)

    def call(self, batch: list[Any], parameters: Any = None) -> list[Any]:
        """Call the model; ``parameters`` is an object of the owner's class. Raises WrongAnswer for no list of them.

        A model that takes tables is called with the inputs as a table.
        """
        if self.table:
            answer = ran(self._called(self.table.of_records(batch), parameters), f"{self.file}: predict")
            return self.values_of(answer, len(batch))
        answers = self._called([*batch], parameters)  # a model may empty or sort the list that it is given
        if type(answers) is not list and not isinstance(ran(answers, f"{self.file}: predict"), list | tuple):
            raise WrongAnswer(f"predict returned {_named(answers)}: return a list with one answer for each input")
        if len(answers) != len(batch):
            raise WrongAnswer(f"predict returned {len(answers)} answers for {len(batch)} inputs")
        return answers if isinstance(answers, list) else list(answers)

    def call_table(self, table: "pa.Table", parameters: Any = None) -> Any:
        """Return what a model that takes tables returns for columns of pyarrow, one for each field of ``Input``."""
        assert self.table
        return ran(self._called(self.table.of_arrow(table), parameters), f"{self.file}: predict")

    def values_of(self, answer: Any, rows: int) -> list[Any]:
        """Return what a model that takes tables has returned, as one answer for each row. Raises WrongAnswer."""
        try:
            answers = answer_values(answer, rows, self.outputs_are_objects)
        except (TypeError, ValueError) as error:
            raise WrongAnswer(str(error)) from None
        if len(answers) != rows:
            raise WrongAnswer(f"predict returned {len(answers)} answers for {rows} inputs")
        return answers

    def _called(self, batch: Any, parameters: Any) -> Any:
        if self.parameters is None:
            return self._predict(batch)
        return self._predict(batch, self._own_copy(self.no_parameters if parameters is None else parameters))

    @staticmethod
    def _own_copy(parameters: Any) -> Any:
        """Return what a call may change without another call seeing it: the next batch, or a half of this one."""
        try:
            return deepcopy(parameters)
        except Exception:  # a field that holds a lock, or another thing that cannot be copied, is shared
            return copy(parameters)

    def checked(self, answers: Sequence[Any]) -> list[Any]:
        """Return the answers as outputs. Raises WrongAnswer for the first one that is none."""
        try:
            return self._hold(answers)
        except ValidationError as error:
            [first, *_] = error.errors(include_input=False, include_url=False, include_context=False)
            index, *field = first["loc"]
        assert isinstance(index, int)
        what = f"{_named(answers[index])}{self._at(field)}, which is not an Output: {unrepeated(first)}"
        raise WrongAnswer(f"predict returned {what}", index)

    def json(self, outputs: Sequence[Any]) -> bytes:
        """Return outputs in JSON, as the schema of ``Output`` promises them. Raises WrongAnswer.

        What ``checked`` does not look into, objects of the owner's classes, is held to its types here.
        """
        try:
            content: bytes = self._write(outputs, by_alias=True, warnings="error")
        except Exception:  # pydantic's, or what a serializer of the owner raises
            raise self._unwritten(outputs) from None
        if b"null" in content and (place := self._null_at(outputs)):
            index = int(place[0])
            raise WrongAnswer(
                f"predict returned {_named(outputs[index])}{self._at(place[1:])}, which is not an Output: "
                "None or a number that is not finite, and its type has no null",
                index,
            )
        return content

    def _null_at(self, outputs: Sequence[Any]) -> tuple[int | str, ...]:
        """Return the place of the first null that the types do not have, () where there is none.

        JSON has null for a number that is not finite, and for None where pydantic did not look.
        """
        try:
            self.outputs.validate_json(self._write(outputs, by_alias=False), **BOTH_NAMES)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False)
            return next((one["loc"] for one in faults if one["input"] is None and one["type"].endswith("_type")), ())
        return ()

    def plain(self, outputs: Sequence[Any], *, by_alias: bool = True) -> list[Any]:
        """Return outputs as dicts, lists, texts and numbers, as JSON has them but for numbers that are not finite."""
        try:
            found = self.outputs.dump_python(list(outputs), mode="json", by_alias=by_alias, warnings="error")
        except Exception:
            raise self._unwritten(outputs) from None
        assert isinstance(found, list)
        return found

    def _at(self, place: Sequence[Any]) -> str:
        # The key of a dict may be a word of the client's.
        known = ("*" if isinstance(part, str) and part not in self._names else str(part) for part in place)
        return f" at {'.'.join(known)}" if place else ""

    def _unwritten(self, outputs: Sequence[Any]) -> WrongAnswer:
        for index, output in enumerate(outputs):
            try:
                self._write([output], by_alias=True, warnings="error")
            except Exception as error:
                what = f"{_named(output)}, which is not an Output: {_unlike(error)}"
                return WrongAnswer(f"predict returned {what}", index)
        return WrongAnswer("predict returned answers that cannot be written twice alike")

    def answers(self, inputs: Sequence[Any], parameters: Any = None) -> list[Any]:
        """Call the model with inputs as ``Model.examples`` has them, and return what JSON would say of its outputs."""
        batch = [self.inputs.validate_python(one) for one in inputs]
        return self.plain(self.checked(self.call(batch, parameters)))

    def _method(self, name: str, what_to_write: str) -> Callable[..., Any]:
        found: Any = getattr(self.model, name, None)
        if not callable(found):
            raise ContractError(f"{self.file}: there is no Model.{name}: write def {what_to_write}")
        refuse_async(found, f"{self.file}: Model.{name}")
        method: Callable[..., Any] = found
        return method

    def _type(self, name: str, names: dict[str, Any], said: Any) -> Any:
        named = names.get(name)
        if named is not None and said not in (None, Any) and named != said:
            raise ContractError(
                f"{self.file}: {name} is {shown(named)}, but predict says list[{shown(said)}]: say the same in both"
            )
        return said if named is None else named

    def _parameters(self, names: dict[str, Any], said: Annotations) -> Any:
        named, annotated = names.get("Parameters"), said.parameters
        if said.arguments == 1:
            if named is not None:
                raise ContractError(
                    f"{self.file}: there is a class Parameters, but predict does not take them: "
                    "write def predict(self, batch: list[Input], parameters: Parameters)"
                )
            return None
        if named is None and annotated is None:
            raise ContractError(
                f"{self.file}: predict takes a second argument and nothing says what it is: write "
                "class Parameters(BaseModel) and def predict(self, batch: list[Input], parameters: Parameters)"
            )
        return annotated if named is None else named

    def _adapter(self, name: str, type_: Any, *, many: bool = False) -> TypeAdapter[Any]:
        listed: Any = GenericAlias(list, (type_,))
        try:
            adapter = TypeAdapter(listed, config=ANYTHING) if many else TypeAdapter(type_)
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
        if self._parameters_adapter is None:
            return None
        try:
            return self._parameters_adapter.validate_python({})
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
