"""Calls of the owner's model: rows of a part in, columns out."""

import typing
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..contract import ContractError
from ..interface import Interface, WrongAnswer
from ..tables import answer_columns
from .answers import Answers, said_columns, schema_of, table_of_columns
from .columns import Columns
from .exits import BadConfiguration
from .making import Maker, TableMaker, plain_fields
from .parts import Part

# The column of an output that is not an object.
PREDICTION = "prediction"


class Caller:
    """Makes inputs of the rows of a part and calls the model with them.

    parameters: an object of the owner's class. limit: the bytes that a file may have which a row leads to.
    """

    def __init__(self, interface: Interface, columns: Columns, parameters: Any = None, limit: int = 16 << 20) -> None:
        self.interface, self._parameters = interface, parameters
        self._fields = columns.typed.fields if columns.typed else ()
        own = TableMaker if interface.table else Maker
        self._maker = own(interface, columns.typed, limit) if columns.typed else None
        # Dicts without a class Output: only the columns check them.
        self._dicts = interface.dated or typing.get_origin(interface.output) is dict
        self._wrapped = False
        self._schema = pa.schema([])
        items: Any = interface.outputs.core_schema
        items = items.get("items_schema", {"type": ""})
        fields = getattr(interface.output, "model_fields", ())
        # Of these pyarrow says what pydantic says.
        self._answers_are_plain = items["type"] in ("float", "int", "bool", "str") or (
            interface.outputs_are_objects and plain_fields(items).issuperset(fields)
        )

    @property
    def takes_tables(self) -> bool:
        """Tell whether the inputs of a batch are a table, and not a list."""
        return self.interface.table is not None

    @property
    def takes_numbers(self) -> bool:
        """Tell whether inputs are objects whose fields are numbers or times."""
        return bool(self._fields) and all(field.key and field.kind == "scalar" for field in self._fields)

    def examples(self) -> list[Any]:
        """Return the model's examples as inputs. Raises BadConfiguration."""
        try:
            return self.interface.examples()
        except ContractError as error:
            raise BadConfiguration(str(error)) from None

    def schema(self, names: list[str]) -> tuple[Answers, pa.Schema]:
        """Return the answers to the examples, and the columns that answers make in addition to those of the names."""
        inputs = self.examples()
        answers = self.raw(inputs)
        if not self._dicts:
            answers = self._dumped(answers)
            self._wrapped = not all(isinstance(answer, dict) for answer in answers)
        answers = self._named(answers)
        said = {} if self._dicts else said_columns(self.interface.output)
        self._schema = schema_of(answers, names, said)
        return answers, self._schema

    def inputs(self, part: Part, rows: Any) -> tuple[Any, dict[int, str]]:
        """Return the inputs of rows of a part, a list or a table, and why other rows are none: place -> reason."""
        return self._maker.inputs(rows, part.files[0]) if self._maker else (rows, {})

    def raw(self, inputs: list[Any]) -> list[Any]:
        """Return the model's own answers. Raises what it raises, and BadConfiguration for another number of them."""
        try:
            return self.interface.call(inputs, self._parameters)
        except WrongAnswer as error:
            raise BadConfiguration(str(error)) from None

    def answers(self, inputs: Any) -> tuple[Answers | pa.Table, dict[int, str]]:
        """Return the model's answers, dicts or a table, and of those that are not outputs the place and why."""
        if not self.takes_tables:
            answers = self.raw(inputs)
            return (self._named(answers), {}) if self._dicts else self._checked(answers)
        try:
            answer = self.interface.call_table(inputs, self._parameters)
            if (table := self._as_table(answer, len(inputs))) is not None:
                return table, {}
            return self._checked(self.interface.values_of(answer, len(inputs)))
        except WrongAnswer as error:
            raise BadConfiguration(str(error)) from None

    def _as_table(self, answer: Any, rows: int) -> pa.Table | None:
        """Return the columns of an answer without an object for each row, None where pydantic has to look at it."""
        if not self._answers_are_plain:
            return None
        if self._wrapped and hasattr(answer, "tolist") and len(answer) == rows:
            return table_of_columns({PREDICTION: answer}, self._schema)
        try:
            return table_of_columns(answer_columns(answer, rows), self._schema)
        except (TypeError, ValueError):
            return None

    def _checked(self, answers: Sequence[Any]) -> tuple[Answers, dict[int, str]]:
        left = list(range(len(answers)))
        bad: dict[int, str] = {}
        while True:
            try:
                return self._named(self._dumped([answers[place] for place in left])), bad
            except WrongAnswer as error:
                if error.index is None:
                    raise
                bad[left.pop(error.index)] = f"the model's answer does not fit: {error}"

    def _dumped(self, answers: Sequence[Any]) -> list[Any]:
        return list(self.interface.outputs.dump_python(self.interface.checked(answers)))

    def _named(self, answers: list[Any]) -> Answers:
        if self._wrapped:
            return [{PREDICTION: answer} for answer in answers]
        if strange := next((type(one).__name__ for one in answers if not isinstance(one, dict)), ""):
            raise BadConfiguration(f"predict returned a list with {strange}: return a dict for each input")
        return answers
