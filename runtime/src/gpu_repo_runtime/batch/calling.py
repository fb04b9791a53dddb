"""Calls of the owner's model: rows of a part in, columns out."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..interface import Interface, WrongAnswer
from ..tables import answer_columns
from .answers import Answers, said_columns, schema_of, table_of_columns, to_table
from .columns import Columns, by_halves
from .exits import BadConfiguration
from .making import Maker, TableMaker, plain_fields
from .parts import Part

# The column of an output that is not an object.
PREDICTION = "prediction"


class Caller:
    """Makes inputs of the rows of a part and calls the model with them.

    parameters: an object of the owner's class.
    """

    def __init__(self, interface: Interface, columns: Columns, parameters: Any = None) -> None:
        self.interface, self._parameters = interface, parameters
        self._fields = columns.fields
        own = TableMaker if interface.table else Maker
        self._maker = None if columns.text else own(interface, columns)
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
        return bool(self._fields) and all(field.kind == "scalar" for field in self._fields)

    def schema(self, names: list[str]) -> pa.Schema:
        """Return the columns that answers make in addition to those of the names, as the answers to the examples do.

        Raises what the model raises, and an error where these answers are no columns.
        """
        answers = self._dumped(self.answers_to_examples())
        self._wrapped = not all(isinstance(answer, dict) for answer in answers)
        answers = self._named(answers)
        self._schema = schema_of(answers, names, said_columns(self.interface.output))
        to_table(answers, self._schema)
        return self._schema

    def answers_to_examples(self) -> list[Any]:
        """Return the model's own answers to its examples. Raises what it raises."""
        return self.interface.call(self.interface.examples(), self._parameters)

    def inputs(self, part: Part, rows: Any) -> tuple[Any, dict[int, str]]:
        """Return the inputs of rows of a part, a list or a table, and why other rows are none: place -> reason."""
        return self._maker.inputs(rows, part.files[0]) if self._maker else (rows, {})

    def answers(self, inputs: Any) -> tuple[pa.Table, dict[int, str]]:
        """Return the model's answers as columns, and of those that are not outputs the place and why.

        Raises what the model raises, and BadConfiguration for another number of answers.
        """
        try:
            if self.takes_tables:
                answer = self.interface.call_table(inputs, self._parameters)
                if (table := self._as_table(answer, len(inputs))) is not None:
                    return table, {}
                answers = self.interface.values_of(answer, len(inputs))
            else:
                answers = self.interface.call(inputs, self._parameters)
        except WrongAnswer as error:
            raise BadConfiguration(str(error)) from None
        tables, bad = by_halves(answers, lambda some: to_table(self._named(self._dumped(some)), self._schema), _why)
        return tables[0] if len(tables) == 1 else pa.concat_tables([self._schema.empty_table(), *tables]), bad

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

    def _dumped(self, answers: Sequence[Any]) -> list[Any]:
        return list(self.interface.outputs.dump_python(self.interface.checked(answers)))

    def _named(self, answers: list[Any]) -> Answers:
        return [{PREDICTION: answer} for answer in answers] if self._wrapped else answers


def _why(error: Exception) -> str:
    return f"the model's answer does not fit: {' '.join(str(error).split())[:300]}"
